package idle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/internal/config"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/plural"
)

// The causes of an idle allocation.
const (
	Parked       = "parked"        // a CUDA context is open, such as a loaded model or a notebook
	NeverStarted = "never_started" // else: no work since the hold began
	Finished     = "finished"      // else: no work from some time on until the hold's end
	Resting      = "idle"          // none of these
)

// cause of a run.
func (run *Run) cause() string {
	switch {
	case run.Grade == meter.RestProven && 2*run.ParkedMS > run.sliceMS():
		return Parked
	case run.NeverStarted:
		return NeverStarted
	case run.Released:
		return Finished
	}
	return Resting
}

func (run *Run) sliceMS() (sum uint64) {
	for _, p := range run.Parts {
		sum += p.SliceMS
	}
	return sum
}

// workload is whose runs make one episode where they overlap.
type workload struct {
	cluster, tenant, project, workload string
	grade                              meter.RestGrade
}

// Episodes joins the runs of one workload and grade that overlap: the leaves of one job
// are one episode. Only proven time has a cost.
func Episodes(cfg Config, runs []Run, rates episode.Rates) []episode.Episode {
	by := map[workload][]Run{}
	for _, r := range runs {
		key := workload{r.Cluster, r.Tenant, r.Project, r.Workload, r.Grade}
		by[key] = append(by[key], r)
	}
	var found []episode.Episode
	for _, of := range by {
		slices.SortFunc(of, func(a, b Run) int {
			return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Leaf, b.Leaf))
		})
		for len(of) > 0 {
			n, end := 1, of[0].To
			for ; n < len(of) && !of[n].From.After(end); n++ {
				if of[n].To.After(end) {
					end = of[n].To
				}
			}
			found = append(found, makeEpisode(cfg, of[:n], end, rates))
			of = of[n:]
		}
	}
	episode.Sort(found)
	return found
}

// makeEpisode sums up runs that overlap, by start.
func makeEpisode(cfg Config, runs []Run, end time.Time, rates episode.Rates) episode.Episode {
	first, last := &runs[0], &runs[len(runs)-1]
	e := episode.Episode{
		Kind: episode.IdleAllocation, Grade: episode.Proven, Cluster: first.Cluster, Tenant: first.Tenant,
		Project: first.Project, Workload: first.Workload, User: last.User, Node: last.Node, Start: first.From, End: end,
	}
	if first.Grade != meter.RestProven {
		e.Grade = episode.Suspected
	}
	var waste episode.Waste
	times := map[string]uint64{} // by cause, in slice-ms
	for i := range runs {
		r := &runs[i]
		var one episode.Waste
		for _, p := range r.Parts {
			one.Add(rates, &episode.Use{
				Hour: p.Hour, Tenant: r.Tenant, Model: p.Model, Profile: r.Profile, Slices: p.Slices,
				ProfileSlices: p.ProfileSlices, Idle: e.Grade == episode.Proven,
			}, episode.GPUHours(p.SliceMS, p.Slices))
		}
		waste.AddAll(&one)
		e.Facts.Runs = append(e.Facts.Runs, episode.Run{
			GPU: r.GPU, Leaf: r.Leaf, Node: r.Node, From: r.From, To: r.To, Cause: r.cause(), GPUHours: one.GPUHours().String(),
		})
		times[r.cause()] += r.sliceMS()
		e.Open = e.Open || r.Open
		e.AddLeaf(episode.Leaf{GPU: r.GPU, Leaf: r.Leaf})
	}
	for _, cause := range []string{Parked, NeverStarted, Finished, Resting} {
		if e.Cause == "" || times[cause] > times[e.Cause] {
			e.Cause = cause
		}
	}
	e.Wasted(&waste)
	e.Evidence = evidence(runs, &e) + e.Evidence // which models have no price
	e.Facts.Rules = []episode.Rule{{
		Key: "idle.min_duration", Value: config.FormatDuration(longest(runs)), Limit: config.FormatDuration(cfg.MinDuration), Least: true,
	}}
	return e
}

// longest is the longest time without work, without what was bridged.
func longest(runs []Run) (d time.Duration) {
	for i := range runs {
		d = max(d, runs[i].Rest)
	}
	return d
}

// evidence is the episode in a sentence.
func evidence(runs []Run, e *episode.Episode) string {
	var parts []string
	switch e.Cause {
	case NeverStarted:
		parts = append(parts, "no work since the hold began")
	case Finished:
		parts = append(parts, "no work from then on until the hold's end")
	case Parked:
		parts = append(parts, "no engine worked while a CUDA context was open")
	default:
		parts = append(parts, "no engine worked")
	}
	if e.Grade == episode.Suspected {
		parts = append(parts, "by the only valid signal: this is no proof, and has no cost")
	}
	parts = append(parts, fmt.Sprintf("%s on %s of %s, at most %s without a break", e.WastedGPUHours.Round(2),
		plural.Of(len(e.Leaves), "leaf"), runs[0].Parts[0].Model, config.FormatDuration(longest(runs).Round(time.Second))))
	return strings.Join(parts, "; ")
}
