package offhours

import (
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/internal/plural"
)

// madScale makes the median absolute deviation comparable to a standard
// deviation of normal data: 1 ÷ Φ⁻¹(3/4).
const madScale = 1.4826

// minSamples is the least number of off-hours for a baseline. A week has more than a
// hundred, so fewer means that the ledger observed too little.
const minSamples = 24

// baseline is the tenant's usual work in its off-hours, in nano-GPU-hours per hour.
type baseline struct {
	median, mad, habit, limit int64
	samples                   int
}

// spike is an open episode: hours [from, to) of the timeline.
type spike struct {
	from, to int
	base     baseline
	floors   []int64 // per hour, the amount that counted as normal
}

// find goes through the hours once. carried is the work that has not paused since the
// last working hour.
func (l *timeline) find(config Config, rates episode.Rates) []episode.Episode {
	var found []episode.Episode
	var open *spike
	var carried int64
	for i := range l.hours {
		h := &l.hours[i]
		if !h.off {
			carried = h.active
		}
		floor, base, hit := l.judge(config, open, i, carried)
		switch {
		case hit && open != nil:
			open.to, open.floors = i+1, append(open.floors, floor)
		case hit:
			open = &spike{from: i, to: i + 1, base: base, floors: []int64{floor}}
		case open != nil:
			found = append(found, l.episode(config, rates, open))
			open = nil
		}
		if h.seen { // an unobserved hour is no pause
			carried = min(carried, h.active)
		}
	}
	if open != nil {
		found = append(found, l.episode(config, rates, open))
	}
	return found
}

// judge decides whether hour i spikes, compared with the open episode's baseline or
// else its own, and returns the part of the hour that isn't waste.
func (l *timeline) judge(config Config, open *spike, i int, carried int64) (floor int64, base baseline, hit bool) {
	h := &l.hours[i]
	rise := int64(config.MinGPUHours * nano)
	if !h.off || h.active-carried < rise {
		return 0, base, false
	}
	if open != nil {
		base = open.base
	} else {
		var ok bool
		if base, ok = l.baseline(config, i); !ok {
			return 0, base, false
		}
	}
	usual := max(base.median, base.habit, carried)
	rise = max(rise, int64((config.MinRatio-1)*float64(usual)))
	return max(base.median, carried), base, h.active > base.limit && h.active-usual >= rise
}

// baseline computes the usual work from the off-hours of the History before hour i. It
// returns false if the tenant has been known for less than MinHistory, or if too
// little of that time was observed.
func (l *timeline) baseline(config Config, i int) (baseline, bool) {
	if time.Duration(i)*time.Hour < config.MinHistory {
		return baseline{}, false
	}
	from := max(0, i-int(config.History/time.Hour))
	var samples []int64
	for _, h := range l.hours[from:i] {
		if h.off && h.seen {
			samples = append(samples, h.active)
		}
	}
	if len(samples) < minSamples {
		return baseline{}, false
	}
	b := baseline{samples: len(samples)}
	slices.Sort(samples)
	b.median = median(samples)
	b.habit = samples[int(config.HabitQuantile*float64(len(samples)))]
	for j, v := range samples {
		samples[j] = max(v-b.median, b.median-v)
	}
	slices.Sort(samples)
	b.mad = median(samples)
	b.limit = b.median + int64(config.MADs*madScale*float64(b.mad))
	return b, true
}

// median of sorted values.
func median(sorted []int64) int64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

func (l *timeline) episode(config Config, rates episode.Rates, s *spike) episode.Episode {
	var waste episode.Waste
	for i, floor := range s.floors {
		l.addWaste(&waste, rates, s.from+i, floor)
	}
	e := episode.Episode{
		Kind: episode.OffHoursSpike, Cluster: l.cluster, Tenant: l.tenant,
		Start: l.at(s.from), End: l.at(s.to), WastedGPUHours: waste.GPUHours(),
	}
	e.WastedCost, e.Currency = waste.Cost()
	e.Evidence = l.evidence(config, s) + waste.Note()
	return e
}

// addWaste adds the hour's time above floor, divided among the hour's models in the
// ratio of their active time: it isn't known which of the jobs were in excess.
func (l *timeline) addWaste(waste *episode.Waste, rates episode.Rates, i int, floor int64) {
	h := l.hours[i]
	for _, m := range h.models {
		part := new(big.Rat).SetFrac64(h.active-floor, h.active)
		part.Mul(part, big.NewRat(m.active, nano))
		waste.Add(rates, m.name, l.at(i), part)
	}
}

func (l *timeline) evidence(config Config, s *spike) string {
	var total, peak, carried int64
	peakAt := s.from
	for i := s.from; i < s.to; i++ {
		total += l.hours[i].active
		if l.hours[i].active > peak {
			peak, peakAt = l.hours[i].active, i
		}
		carried = max(carried, s.floors[i-s.from]-s.base.median)
	}
	text := fmt.Sprintf("%s GPU-hours active in %s, at most %s in the hour of %s; "+
		"before: median %s per off-hour, MAD %s, %g %% quantile %s over %s of %s; limit %s, and %g times "+
		"the usual",
		gpuHours(total), plural.Of(s.to-s.from, "off-hour"), gpuHours(peak), l.at(peakAt).In(l.zone).Format("Mon "+
			"2006-01-02 15:04 MST"),
		gpuHours(s.base.median), gpuHours(s.base.mad), 100*config.HabitQuantile, gpuHours(s.base.habit),
		plural.Of(s.base.samples, "hour"), plural.Of(int(config.History/(24*time.Hour)), "day"),
		gpuHours(s.base.limit), config.MinRatio)
	if carried > 0 {
		text += fmt.Sprintf("; up to %s per hour above the median went on from working hours and is not counted",
			gpuHours(carried))
	}
	return text
}

func gpuHours(n int64) string { return fmt.Sprintf("%.2f", float64(n)/nano) }
