package idle

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/internal/plural"
)

const hourMS = 3_600_000

// idleDuration is the wall-clock idle time of a run of hours. The ledger stores
// slice-ms, in which a quarter share for an hour equals a whole leaf for 15 minutes.
// The owner's share is taken from the run's fullest hour, because an hour between two
// others was held throughout. A run of one or two hours has no such hour; there only
// use of the whole leaf counts as full time, so that short episodes are never
// overstated.
func idleDuration(run []Hour) time.Duration {
	full := leafSlices(run[0]) * hourMS
	if len(run) > 2 {
		full = 0
		for _, h := range run {
			full = max(full, h.heldSliceMS())
		}
	}
	var ms uint64
	for _, h := range run {
		if hi, lo := bits.Mul64(h.IdleSliceMS, hourMS); hi < full {
			part, _ := bits.Div64(hi, lo, full)
			ms += min(part, hourMS)
		} else {
			ms += hourMS
		}
	}
	return time.Duration(ms) * time.Millisecond
}

func leafSlices(h Hour) uint64 {
	if h.LeafSlices > 0 {
		return uint64(h.LeafSlices)
	}
	return max(uint64(h.Slices), 1)
}

// episode sums up a run of hours that begins and ends with an idle one.
func (f *Finder) episode(run []Hour) episode.Episode {
	first, last := run[0], run[len(run)-1]
	var waste episode.Waste
	var idleMS, heldMS uint64
	unproven := 0
	for _, h := range run {
		waste.Add(f.rates, h.Model, h.Start, episode.GPUHours(h.IdleSliceMS, h.Slices))
		idleMS += h.IdleSliceMS
		heldMS += h.heldSliceMS()
		if f.classify(h) == stateUnproven {
			unproven++
		}
	}
	e := episode.Episode{
		Kind: episode.IdleAllocation, Cluster: first.Cluster,
		Tenant: first.Tenant, Project: first.Project, Workload: first.Workload, User: last.User,
		Node: last.Node, GPU: first.GPU, Leaf: first.Leaf,
		Start: first.Start.UTC(), End: last.Start.UTC().Add(time.Hour),
		WastedGPUHours: waste.GPUHours(),
	}
	e.WastedCost, e.Currency = waste.Cost()
	e.Evidence = evidence(run, idleMS, heldMS, unproven) + waste.Note()
	return e
}

func evidence(run []Hour, idleMS, heldMS uint64, unproven int) string {
	first := run[0]
	text := fmt.Sprintf("idle %s of %s: %.1f %% of the held time shows no work, on %s of %s",
		formatHours(idleDuration(run)), plural.Of(len(run), "hour"),
		100*float64(idleMS)/float64(heldMS), leafName(first), first.Model)
	if user := run[len(run)-1].User; user != "" {
		text += ", user " + user
	}
	if unproven > 0 {
		text += fmt.Sprintf("; %s without evidence in between, not counted as idle",
			plural.Of(unproven, "hour"))
	}
	return text
}

func formatHours(d time.Duration) string { return fmt.Sprintf("%.1f h", d.Hours()) }

func leafName(h Hour) string {
	if h.Leaf == "" {
		return "the whole GPU"
	}
	return "leaf " + h.Leaf
}
