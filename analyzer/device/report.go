package device

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/internal/plural"
)

// rank orders runs by how bad they are.
func (r *run) rank() int {
	return len(causes) - slices.IndexFunc(causes, func(c rating) bool { return c.name == r.cause() })
}

// rating is what a cause means.
type rating struct {
	name  string
	least episode.Severity
	text  string
}

// causes from the worst on. Errors of users' programs are no alert: people look at them with their job.
var causes = []rating{
	{Fatal, episode.Medium, "a fatal error of the GPU: it needs a reset"},
	{Device, episode.Low, "errors of the GPU that no user's program causes"},
	{Application, episode.Info, "errors that users' programs cause"},
}

func (r *run) cause() string {
	switch {
	case !r.fatal.IsZero():
		return Fatal
	case !r.device.IsZero():
		return Device
	}
	return Application
}

// known is when the cause was.
func (r *run) known() time.Time {
	switch {
	case !r.fatal.IsZero():
		return r.fatal
	case !r.device.IsZero():
		return r.device
	}
	return r.from.Add(time.Hour)
}

func (r *run) episode(newest Newest, rates episode.Rates) episode.Episode {
	rated := causes[len(causes)-r.rank()]
	e := episode.Episode{
		Kind: episode.GPUErrors, Grade: episode.None, Cause: rated.name, Cluster: r.cluster, Node: r.node, Start: r.from,
		End: r.to, Known: r.known(), Least: rated.least, Open: newest.open(r.cluster, r.to), Waste: &episode.Waste{},
	}
	e.AddLeaf(episode.Leaf{GPU: r.gpu})
	for _, s := range r.unhealthy {
		e.Waste.Add(rates, &episode.Use{Hour: s.Hour.UTC(), Model: s.Model}, episode.GPUHours(s.UnhealthyMilliMS, 1000))
	}
	e.Observed = e.Waste.GPUHours().InexactFloat64()
	parts := []string{rated.text + ": " + codes(r.counts)}
	if len(r.within) > 0 {
		symptoms := map[int64]uint64{}
		for _, other := range r.within {
			e.AddLeaf(episode.Leaf{GPU: other.gpu})
			for code, n := range other.counts {
				symptoms[code] += n
			}
		}
		others := plural.Of(len(r.within), "other GPU")
		parts = append(parts, fmt.Sprintf("%s of the same workload reported %s", others, codes(symptoms)))
	}
	if e.Observed > 0 {
		parts = append(parts, fmt.Sprintf("%.1f GPU-hours were unhealthy", e.Observed))
	}
	e.Evidence = strings.Join(parts, "; ")
	return e
}

// codes are errors with their counts, by number.
func codes(counts map[int64]uint64) string {
	var out []string
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("XID %d (%d)", code, counts[code]))
	}
	return strings.Join(out, ", ")
}
