package device

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/internal/plural"
)

// The causes of unobserved time.
const (
	Silent = "silent" // no batch, or batches that observed nothing
	Owners = "owners" // batches came, but the owners could not be read
)

// Silence is a run of UTC hours in which nearly no GPU time of a node was observed, for one cause.
type Silence struct {
	Cluster, Node string
	Owners        bool // more than half of it: the owners could not be read
	From, To      time.Time
	Model         string // the most frequent one
	LostMilliMS   uint64 // unobserved time in GPU-ms × 1000
	Nodes         uint64 // of the cluster in the first hour
}

// together is by how much the starts of silences of one outage differ at most: the hours of two nodes may be silent by
// more than the threshold in different hours.
const together = time.Hour

// Newest has the newest hour of each cluster that still sends.
type Newest map[string]time.Time

// open reports whether an episode that ends then goes on.
func (n Newest) open(cluster string, end time.Time) bool {
	hour, goesOn := n[cluster]
	return goesOn && !end.Before(hour)
}

// Outages returns one episode for each silence, and one for the nodes of a cluster that fell silent within an hour,
// which is their parent. If these are at least half of the nodes, later silences that begin before all of these end
// belong to it, too.
func Outages(silences []Silence, newest Newest, rates episode.Rates) []episode.Episode {
	by := map[string][]Silence{}
	for _, s := range silences {
		key := s.Cluster + "\x00" + s.cause()
		by[key] = append(by[key], s)
	}
	var found []episode.Episode
	for _, of := range by {
		slices.SortFunc(of, func(a, b Silence) int { return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Node, b.Node)) })
		for len(of) > 0 {
			var members []Silence
			members, of = takeOutage(of)
			found = append(found, outage(members, newest, rates)...)
		}
	}
	episode.Sort(found)
	return found
}

func (s *Silence) cause() string {
	if s.Owners {
		return Owners
	}
	return Silent
}

// takeOutage divides silences of a cluster, by start, into those of the first outage and the others.
func takeOutage(of []Silence) (members, rest []Silence) {
	n, end := 0, time.Time{}
	for ; n < len(of) && !of[n].From.After(of[0].From.Add(together)); n++ {
		if of[n].To.After(end) {
			end = of[n].To
		}
	}
	members = slices.Clone(of[:n])
	if whole := n > 1 && 2*uint64(n) >= of[0].Nodes; !whole {
		return members, of[n:]
	}
	for _, s := range of[n:] {
		if s.From.Before(end) {
			members = append(members, s)
		} else {
			rest = append(rest, s)
		}
	}
	return members, rest
}

// outage makes the episodes of silences that belong together: the only one, or the parent and its children.
func outage(members []Silence, newest Newest, rates episode.Rates) []episode.Episode {
	var found []episode.Episode
	for i := range members {
		e := silence(members[i:i+1], newest, rates)
		e.Node = members[i].Node
		found = append(found, e)
	}
	if len(members) == 1 {
		return found
	}
	parent := silence(members, newest, rates)
	for i := range found {
		found[i].Parent = parent.ID()
	}
	return append(found, parent)
}

// silence is the episode of silences of one cluster and cause; the first begins first.
func silence(of []Silence, newest Newest, rates episode.Rates) episode.Episode {
	e := episode.Episode{
		Kind: episode.Unobserved, Grade: episode.None, Cause: of[0].cause(), Cluster: of[0].Cluster, Start: of[0].From.UTC(),
		Waste: lost(of, rates),
	}
	var nodes []string
	for _, s := range of {
		if nodes = append(nodes, s.Node); s.To.After(e.End) {
			e.End = s.To.UTC()
		}
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	e.Open = newest.open(e.Cluster, e.End)
	e.Observed = e.Waste.GPUHours().InexactFloat64()
	what := "nothing was observed of"
	if e.Cause == Owners {
		what = "the owners could not be read on"
	}
	e.Evidence = fmt.Sprintf("%s %s (%s), of %d in the cluster, for %.1f GPU-hours: they are in no tenant's usage", what,
		plural.Of(len(nodes), "node"), some(nodes), of[0].Nodes, e.Observed)
	return e
}

// lost is the unobserved time, divided evenly among the hours of each silence.
func lost(of []Silence, rates episode.Rates) *episode.Waste {
	type price struct {
		hour  time.Time
		model string
	}
	sums := map[price]*big.Rat{}
	for _, s := range of {
		hours := int64(s.To.Sub(s.From) / time.Hour)
		share := new(big.Rat).Quo(episode.GPUHours(s.LostMilliMS, 1000), big.NewRat(max(hours, 1), 1))
		for hour := s.From.UTC(); hour.Before(s.To); hour = hour.Add(time.Hour) {
			key := price{hour, s.Model}
			if sums[key] == nil {
				sums[key] = new(big.Rat)
			}
			sums[key].Add(sums[key], share)
		}
	}
	waste := &episode.Waste{}
	for key, hours := range sums {
		waste.Add(rates, &episode.Use{Hour: key.hour, Model: key.model}, hours)
	}
	return waste
}

// named is how many names a text has at most.
const named = 5

// some are the first names, and how many there are besides.
func some(names []string) string {
	if len(names) <= named {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:named], ", "), len(names)-named)
}
