package device

import (
	"fmt"
	"slices"
	"time"

	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/plural"
)

// The causes of doubtful telemetry.
const (
	Contradictory = "contradictory" // signals disagree, such as quiet activity and high power
	OneSignal     = "one_signal"    // a single valid signal, and quiet: two are needed
	Missing       = "missing"       // no valid signal
)

// Sampled is the time for which each hour that is read stands: it begins with the hour.
const Sampled = 6 * time.Hour

// Doubt is time of a node, in sampled hours that follow each other by at most a day, that settlement gave one of the
// reasons no_signal, one_signal, contradictory, or unowned_work.
type Doubt struct {
	Cluster, Node string
	Why           meter.Why
	From, To      time.Time
	GPUs          []string
	Model         string
	LeafMS        uint64 // time of its leaves in the sampled hours
	GPUMilliMS    uint64 // the same in GPU-ms × 1000
}

// doubts are what the reasons mean.
var doubts = map[meter.Why]struct {
	kind        episode.Kind
	cause, text string
	lost        bool // the platform bears the time
}{
	meter.WhyNoSignal:    {episode.Telemetry, Missing, "held, but no signal shows whether there was work", false},
	meter.WhyOneSignal:   {episode.Telemetry, OneSignal, "held, and quiet by the only valid signal: no proof", false},
	meter.WhyContrary:    {episode.Telemetry, Contradictory, "held, and the signals contradict each other", false},
	meter.WhyUnownedWork: {episode.WorkWithoutOwner, "", "at work while nobody held them: free, no tenant pays", true},
}

// Reasons are those that are found.
func Reasons() []uint16 {
	var all []uint16
	for why := range doubts {
		all = append(all, uint16(why))
	}
	slices.Sort(all)
	return all
}

// Doubts returns an episode for each row.
func Doubts(rows []Doubt, newest Newest, rates episode.Rates) (found []episode.Episode) {
	for i := range rows {
		d := &rows[i]
		means := doubts[d.Why]
		end := d.To.Add(Sampled - time.Hour).UTC()
		if hour, goesOn := newest[d.Cluster]; goesOn && hour.Before(end) {
			end = latest(d.To, hour.Add(time.Hour)).UTC() // the rest is to come
		}
		e := episode.Episode{
			Kind: means.kind, Grade: episode.None, Cause: means.cause, Cluster: d.Cluster, Node: d.Node, Start: d.From.UTC(),
			End: end, Open: newest.open(d.Cluster, end), Waste: &episode.Waste{},
		}
		for _, gpu := range d.GPUs {
			e.AddLeaf(episode.Leaf{GPU: gpu})
		}
		if means.lost {
			all := d.GPUMilliMS * uint64(Sampled/time.Hour)
			e.Waste = lost([]Silence{{From: d.From, To: end, Model: d.Model, LostMilliMS: all}}, rates)
			e.Observed = e.Waste.GPUHours().InexactFloat64()
		}
		hours := float64(d.LeafMS) / 3_600_000 * Sampled.Hours()
		e.Evidence = fmt.Sprintf("about %.1f leaf-hours on %s (%s): %s", hours, plural.Of(len(d.GPUs), "GPU"), some(d.GPUs),
			means.text)
		found = append(found, e)
	}
	episode.Sort(found)
	return found
}
