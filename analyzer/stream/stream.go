package stream

import (
	"fmt"
	"math"
	"time"
)

const (
	// Limit is the greatest absolute value of a point: squares of differences stay finite.
	Limit = 1e150
	// AlarmScore is the least score of an alarm.
	AlarmScore = 0.5
	// maxBack is how far a timestamp may go back, as at a change of clock.
	maxBack = day

	warmUp     = 256 // points that are not judged
	roughOver  = 24  // differences
	fastLife   = 12  // points
	slowLife   = 576
	courseLife = 2000
	roughLife  = 500
)

// The measures: differences that say how unusual a point is.
const (
	high       = iota // the value
	low               // the value, downwards
	jump              // to the previous value
	pair              // to the nearest earlier (value, previous value)
	nearCourse        // to the nearest earlier course
	dayMedian         // to the median of the same time of day
	dayNearest        // to the nearest value around the same time of day
	level             // of a fast mean to a slow one
	rough             // mean difference of neighbours, logarithmic
	calm              // the same, downwards
	measures
)

// settings are the constants that tests compare with others.
type settings struct {
	weight    [measures]float64
	exponent  float64 // evidence is (Σ (weight × surprise)^exponent)^(1/exponent)
	sample    int     // values that a measure is compared with
	recurring float64 // part of the evidence usual at a time of day that counts no more
	ordinary  float64 // evidence that points of any series have, and that may be usual
	quiet     time.Duration
	threshold float64 // evidence of an alarm
}

var defaults = settings{
	weight: [measures]float64{
		high: 1, low: 1, jump: 1, pair: 1, nearCourse: 1, dayMedian: 0.5, dayNearest: 0.5, level: 1, rough: 1, calm: 1,
	},
	exponent: 1.5, sample: 2048, recurring: 1, ordinary: 10, quiet: 12 * time.Hour, threshold: 15.6,
}

// Result is what is said of a point.
type Result struct {
	Score float64 // from 0 to below 1
	Alarm bool    // Score is at least AlarmScore
}

// Detector is the state of one series.
type Detector struct {
	settings
	n          int
	at         int64 // of the last point: Unix milliseconds, never decreasing
	recent     recent
	history    history
	fast, slow mean
	spans      [spans]mean
	roughness  mean
	measures   [measures]measure
	peaks      []peak // of the last hours of quiet, descending in evidence
}

// peak is the evidence of a point.
type peak struct {
	at       int64
	evidence float64
}

// New returns a detector that has seen no point.
func New() *Detector { return &Detector{settings: defaults} }

// Add judges the next point and learns from it. An error is a value that is not finite or
// beyond Limit, or a timestamp more than a day before an earlier one; the detector is
// unchanged then.
func (d *Detector) Add(at time.Time, value float64) (Result, error) {
	ms := at.UnixMilli()
	switch {
	case math.IsNaN(value) || math.Abs(value) > Limit:
		return Result{}, fmt.Errorf("value %v: want a number from -%g to %g", value, Limit, Limit)
	case d.n > 0 && d.at-ms > maxBack.Milliseconds():
		return Result{}, fmt.Errorf("timestamp %s: is more than a day before %s: sort the points by time",
			at.UTC().Format(time.RFC3339), time.UnixMilli(d.at).UTC().Format(time.RFC3339))
	case d.n > 0:
		ms = max(ms, d.at)
	}
	evidence := d.learn(ms, value)
	d.n, d.at = d.n+1, ms
	if d.n <= warmUp || !d.highest(ms, evidence) {
		return Result{}, nil
	}
	score := 1 - math.Exp2(-evidence/d.threshold)
	return Result{Score: score, Alarm: score >= AlarmScore}, nil
}

// learn takes a point into the state, and returns its evidence by what was known before.
func (d *Detector) learn(at int64, value float64) (evidence float64) {
	d.fast.add(value, fastLife)
	d.slow.add(value, slowLife)
	if c, ok := d.recent.course(value); ok {
		same, ok := d.history.sameTime(at, value)
		if !ok {
			same.toMedian, same.toNearest = math.NaN(), math.NaN()
		}
		evidence = d.weigh(value, c, same)
		d.history.add(at, value, d.recent[before-1], evidence, c)
		evidence = max(0, evidence-d.recurring*max(0, same.usual-d.ordinary))
	}
	d.recent.add(value)
	return evidence
}

// weigh measures a point, and returns what the measures come to.
func (d *Detector) weigh(value float64, c course, same sameTime) float64 {
	var units course
	for i := range c {
		d.spans[i].add(c[i], courseLife)
		units[i] = d.spans[i].unit()
	}
	previous, roughness := d.recent[before-1], d.recent.roughness(value)
	d.roughness.add(roughness, roughLife)
	logRoughness := math.Log(roughness + d.roughness.value*1e-3 + d.slow.unit()*1e-9)
	sum := 0.0
	for i, v := range [measures]float64{
		high: value, low: -value, jump: math.Abs(value - previous),
		pair: d.history.nearestPair(value, previous), nearCourse: d.history.nearestCourse(c, &units),
		dayMedian: same.toMedian, dayNearest: same.toNearest,
		level: math.Abs(d.fast.value-d.slow.value) / d.slow.unit(), rough: logRoughness, calm: -logRoughness,
	} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		sum += math.Pow(d.weight[i]*d.measures[i].surprise(v), d.exponent)
		d.measures[i].add(v, d.sample)
	}
	return math.Pow(sum, 1/d.exponent)
}

// highest says whether no point of the last hours of quiet had as much evidence.
func (d *Detector) highest(at int64, evidence float64) bool {
	for len(d.peaks) > 0 && at-d.peaks[0].at > d.quiet.Milliseconds() {
		d.peaks = d.peaks[1:]
	}
	n := len(d.peaks)
	for n > 0 && d.peaks[n-1].evidence < evidence {
		n--
	}
	d.peaks = d.peaks[:n]
	// One peak a minute bounds their number.
	if n == 0 || at-d.peaks[n-1].at >= time.Minute.Milliseconds() {
		d.peaks = append(d.peaks, peak{at, evidence})
	}
	return n == 0
}
