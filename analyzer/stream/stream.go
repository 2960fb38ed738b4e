package stream

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gputally/gputally/analyzer/tail"
)

const (
	reach     = 7 * 24 * time.Hour
	day       = 24 * time.Hour
	maxPoints = 50_000
	near      = 3 // steps to each side
	refit     = 64
	fitted    = 2048 // earlier differences that a tail is fitted to
	quietFor  = 12 * time.Hour
	// Rarest is the greatest probability of an alarm's evidence: once in ten weeks of
	// points every five minutes.
	Rarest = 5e-5
)

// Result is what is said of a point.
type Result struct {
	Score float64 // 0 to 1
	Alarm bool
}

// Detector is the state of one series.
type Detector struct {
	first    time.Time
	times    []time.Time // ascending, of the last seven days
	values   []float64
	steps    []float64 // the last intervals, in seconds
	slow     mean
	fast     mean
	measures [4]measure
	sum      measure // of the evidence
	peaks    []peak  // evidence of the last twelve hours, descending
	n        int
}

// peak is a point's evidence.
type peak struct {
	at       time.Time
	evidence float64
}

// mean is an exponentially weighted mean and its mean absolute deviation.
type mean struct {
	life      float64 // seconds
	value     float64
	deviation float64
	set       bool
}

// measure is one of the differences with its earlier values.
type measure struct {
	ring  []float64
	next  int
	tail  tail.Tail
	since int // differences since the tail was fitted
	ready bool
}

// New returns a detector without points.
func New() *Detector {
	d := &Detector{slow: mean{life: 2 * day.Seconds()}, fast: mean{life: time.Hour.Seconds()}}
	return d
}

// Add judges the next point.
func (d *Detector) Add(at time.Time, value float64) (Result, error) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return Result{}, fmt.Errorf("value %v: must be finite", value)
	}
	if n := len(d.times); n > 0 && at.Before(d.times[n-1]) {
		return Result{}, fmt.Errorf("timestamp %s: is before the previous one, %s", at.Format(time.RFC3339),
			d.times[n-1].Format(time.RFC3339))
	}
	if d.n == 0 {
		d.first = at
	}
	evidence := d.evidence(at, value)
	d.push(at, value)
	p := 1.0
	if d.sum.ready {
		p = d.sum.tail.P(evidence)
	}
	if at.Sub(d.first) >= day {
		d.sum.add(evidence)
	}
	return d.result(at, evidence, p), nil
}

// evidence is the sum of −log p of the four differences.
func (d *Detector) evidence(at time.Time, value float64) (sum float64) {
	if d.n < 2 {
		return 0
	}
	step := d.step()
	sameTime, nearest := d.sameTime(at, value, step)
	elapsed := at.Sub(d.times[len(d.times)-1]).Seconds()
	fast, slow := d.fast, d.slow
	fast.add(value, elapsed)
	level := math.Abs(fast.value-slow.value) / max(slow.deviation, 1e-9*(1+math.Abs(slow.value)))
	judged := at.Sub(d.first) >= day
	for i, difference := range [...]float64{sameTime, nearest, d.novelty(value), level} {
		if math.IsNaN(difference) {
			continue
		}
		m := &d.measures[i]
		if judged && m.ready {
			sum -= math.Log(m.tail.P(difference))
		}
		m.add(difference)
	}
	return sum
}

// step is the usual interval between points, in seconds.
func (d *Detector) step() float64 {
	sorted := slices.Clone(d.steps)
	slices.Sort(sorted)
	return max(sorted[len(sorted)/2], 1)
}

// sameTime is the difference to the median of the points at the same time of day, and to
// the nearest of those within a few steps; NaN: there are none.
func (d *Detector) sameTime(at time.Time, value, step float64) (toMedian, toNearest float64) {
	var same []float64
	toNearest = math.Inf(1)
	width := time.Duration((near + 0.5) * step * float64(time.Second))
	for k := 1; k <= 7; k++ {
		then := at.Add(-time.Duration(k) * day)
		i, _ := slices.BinarySearchFunc(d.times, then.Add(-width), time.Time.Compare)
		best, distance := math.NaN(), time.Duration(math.MaxInt64)
		for ; i < len(d.times) && !d.times[i].After(then.Add(width)); i++ {
			if off := d.times[i].Sub(then).Abs(); off < distance {
				best, distance = d.values[i], off
			}
			toNearest = min(toNearest, math.Abs(value-d.values[i]))
		}
		if !math.IsNaN(best) {
			same = append(same, best)
		}
	}
	if len(same) == 0 {
		return math.NaN(), math.NaN()
	}
	slices.Sort(same)
	return math.Abs(value - same[len(same)/2]), toNearest
}

// novelty is the distance of the pair (value, previous value) to the nearest earlier pair.
func (d *Detector) novelty(value float64) float64 {
	n := len(d.values)
	if n < 20 {
		return math.NaN()
	}
	last, best := d.values[n-1], math.Inf(1)
	for i := 1; i < n-1; i++ {
		x, y := value-d.values[i], last-d.values[i-1]
		best = min(best, x*x+y*y)
	}
	return math.Sqrt(best)
}

// add appends a difference, and fits the tail again from time to time.
func (m *measure) add(difference float64) {
	if len(m.ring) < fitted {
		m.ring = append(m.ring, difference)
	} else {
		m.ring[m.next] = difference
		m.next = (m.next + 1) % fitted
	}
	if m.since++; m.since < refit {
		return
	}
	m.since, m.ready = 0, true
	sample := slices.Clone(m.ring)
	slices.Sort(sample)
	spread := sample[len(sample)*3/4] - sample[len(sample)/4]
	m.tail = tail.New(sample, max(spread/10, 1e-9*(1+math.Abs(sample[len(sample)-1]))))
}

func (m *mean) add(value, elapsed float64) {
	if !m.set {
		m.value, m.set = value, true
		return
	}
	weight := 1 - math.Exp(-max(elapsed, 1)/m.life)
	m.deviation += weight * (math.Abs(value-m.value) - m.deviation)
	m.value += weight * (value - m.value)
}

// push takes the point into the state.
func (d *Detector) push(at time.Time, value float64) {
	elapsed := 0.0
	if n := len(d.times); n > 0 {
		elapsed = at.Sub(d.times[n-1]).Seconds()
		if d.steps = append(d.steps, elapsed); len(d.steps) > 101 {
			d.steps = d.steps[1:]
		}
	}
	d.fast.add(value, elapsed)
	d.slow.add(value, elapsed)
	d.times, d.values = append(d.times, at), append(d.values, value)
	d.n++
	old, oldest := 0, at.Add(-reach-day/4)
	for old < len(d.times) && (d.times[old].Before(oldest) || len(d.times)-old > maxPoints) {
		old++
	}
	if old > len(d.times)/4 {
		d.times, d.values = slices.Delete(d.times, 0, old), slices.Delete(d.values, 0, old)
	}
}

// result turns evidence into a score, and keeps the highest of twelve hours.
func (d *Detector) result(at time.Time, evidence, p float64) Result {
	for len(d.peaks) > 0 && at.Sub(d.peaks[0].at) > quietFor {
		d.peaks = d.peaks[1:]
	}
	highest := len(d.peaks) == 0 || evidence > d.peaks[0].evidence
	for len(d.peaks) > 0 && d.peaks[len(d.peaks)-1].evidence <= evidence {
		d.peaks = d.peaks[:len(d.peaks)-1]
	}
	d.peaks = append(d.peaks, peak{at, evidence})
	score := 1 - math.Exp(-math.Log(p)/math.Log(Rarest)*math.Ln2) // ½ at the limit
	if !highest {
		score /= 2
	}
	return Result{Score: score, Alarm: highest && p <= Rarest}
}
