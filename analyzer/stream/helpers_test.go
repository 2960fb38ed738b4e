package stream

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"
)

// window is where an alarm counts as a detection: points from first to last.
type window struct{ first, last int }

// windows are those of NAB (Lavin and Ahmad, "Evaluating Real-time Anomaly Detection
// Algorithms", 2015): a tenth of the series, divided by the number of anomalies, around
// each anomaly's beginning. Windows that overlap are one.
func windows(n int, begins []int) []window {
	var ws []window
	if len(begins) == 0 {
		return nil
	}
	half := int(0.1 * float64(n) / float64(len(begins)) / 2)
	for _, b := range slices.Sorted(slices.Values(begins)) {
		w := window{max(0, b-half), min(n-1, b+half)}
		if k := len(ws) - 1; k >= 0 && ws[k].last >= w.first {
			ws[k].last = w.last
			continue
		}
		ws = append(ws, w)
	}
	return ws
}

// probation is how many points at a series' beginning NAB doesn't judge.
func probation(n int) int { return int(0.15 * float64(min(n, 5000))) }

// sigmoid is NAB's weight of an alarm: y is -1 at a window's beginning, 0 at its end.
func sigmoid(y float64) float64 {
	if y > 3 {
		return -1
	}
	return 2/(1+math.Exp(5*y)) - 1
}

// tally is what alarms come to.
type tally struct {
	windows, hit, false int
	raw                 float64 // NAB's standard profile
	weeks               float64
}

func (t *tally) add(o tally) {
	t.windows += o.windows
	t.hit += o.hit
	t.false += o.false
	t.raw += o.raw
	t.weeks += o.weeks
}

// score is NAB's, from 0 (no alarm at all) to 100 (each anomaly at once, nothing else).
func (t tally) score() float64 {
	return 100 * (t.raw + float64(t.windows)) / (2 * float64(t.windows))
}
func (t tally) recall() float64       { return float64(t.hit) / float64(t.windows) }
func (t tally) falsePerWeek() float64 { return float64(t.false) / t.weeks }

// judge counts the alarms of a series: points of at least the threshold.
func judge(s *labelled, scores []float64, threshold float64) tally {
	n := len(scores)
	ws, from := windows(n, s.begins), probation(n)
	t := tally{windows: len(ws), weeks: s.times[n-1].Sub(s.times[from]).Hours() / 168}
	hit, passed := make([]bool, len(ws)), -1
	k := 0
	for i := from; i < n; i++ {
		for k < len(ws) && i > ws[k].last {
			passed = k
			k++
		}
		if scores[i] < threshold {
			continue
		}
		if k < len(ws) && i >= ws[k].first {
			if !hit[k] {
				hit[k] = true
				t.hit++
				wide := float64(ws[k].last - ws[k].first + 1)
				t.raw += sigmoid(-float64(ws[k].last-i+1)/wide) / sigmoid(-1)
			}
			continue
		}
		t.false++
		weight := -1.0
		if passed >= 0 {
			w := ws[passed]
			weight = sigmoid(float64(i-w.last) / float64(max(1, w.last-w.first)))
		}
		t.raw += 0.11 * weight
	}
	t.raw -= float64(len(ws) - t.hit)
	return t
}

// scored is a series with the scores of its points.
type scored struct {
	labelled
	scores []float64
}

// scoreAll scores a series of each family for each seed.
func scoreAll(seeds []uint64, score func(*labelled) []float64) (all []scored) {
	for _, family := range families {
		for _, seed := range seeds {
			s := scored{generate(family, seed), nil}
			s.scores = score(&s.labelled)
			all = append(all, s)
		}
	}
	return all
}

// at counts the alarms of a family's series, or of all.
func at(all []scored, threshold float64, family string) (t tally) {
	for i := range all {
		if family == "" || all[i].family == family {
			t.add(judge(&all[i].labelled, all[i].scores, threshold))
		}
	}
	return t
}

// every returns the series of an interval.
func every(all []scored, step time.Duration) (same []scored) {
	for _, s := range all {
		if s.family != "irregular" && s.times[1].Sub(s.times[0]) == step {
			same = append(same, s)
		}
	}
	return same
}

// choose returns the threshold of the highest score, and the lowest with at most 0.1
// false alarms per week.
func choose(all []scored) (best, quiet float64) {
	var candidates []float64
	for i := range all {
		for k, v := range all[i].scores {
			if v > 0 && k >= probation(len(all[i].scores)) {
				candidates = append(candidates, v)
			}
		}
	}
	slices.Sort(candidates)
	n, top := float64(len(candidates)), math.Inf(-1)
	quiet = math.Inf(1)
	for share := 0.5; share > 1/n; share *= 0.93 {
		threshold := candidates[int(n*(1-share))]
		t := at(all, threshold, "")
		if t.score() > top {
			top, best = t.score(), threshold
		}
		if t.falsePerWeek() <= 0.1 {
			quiet = min(quiet, threshold)
		}
	}
	return best, quiet
}

// with scores by a detector that has these settings.
func with(set settings) func(*labelled) []float64 {
	return func(s *labelled) []float64 {
		d := New()
		d.settings = set
		scores := make([]float64, len(s.values))
		for i, at := range s.times {
			r, err := d.Add(at, s.values[i])
			if err != nil {
				panic(err)
			}
			scores[i] = r.Score
		}
		return scores
	}
}

// highestOf keeps a rule's scores that are the highest of the last twelve hours, as the
// detector does: without that, each rule would be worse.
func highestOf(rule func(s *labelled, i int) float64) func(*labelled) []float64 {
	return func(s *labelled) []float64 {
		d := New()
		scores := make([]float64, len(s.values))
		for i := range scores {
			if v := rule(s, i); d.highest(s.times[i].UnixMilli(), v) {
				scores[i] = v
			}
		}
		return scores
	}
}

// sigmas is the distance to the mean of the last 288 points in standard deviations.
func sigmas(s *labelled, i int) float64 {
	if i < 50 {
		return 0
	}
	mean, deviation := stat.MeanStdDev(s.values[max(0, i-288):i], nil)
	return math.Abs(s.values[i]-mean) / (deviation + 1e-9*math.Abs(mean) + 1e-300)
}

// deviations is the distance to the median of the same time of day ± 3 points over seven
// days, in median absolute deviations.
func deviations(s *labelled, i int) float64 {
	var same []float64
	for then := s.times[i].Add(-day); !then.Before(s.times[i].Add(-reach)); then = then.Add(-day) {
		k, _ := slices.BinarySearchFunc(s.times, then, time.Time.Compare)
		if !then.Before(s.times[0]) {
			same = append(same, s.values[max(0, k-3):min(i, k+4)]...)
		}
	}
	if len(same) < 5 {
		return 0
	}
	slices.Sort(same)
	median := same[len(same)/2]
	for k := range same {
		same[k] = math.Abs(same[k] - median)
	}
	slices.Sort(same)
	return math.Abs(s.values[i]-median) / (same[len(same)/2] + 0.01*same[len(same)-1] + 1e-9*math.Abs(median) + 1e-300)
}

// seeds from 1 on chose the settings; those from 1001 on judge them.
func seeds(from, n uint64) (s []uint64) {
	for i := range n {
		s = append(s, from+i)
	}
	return s
}
