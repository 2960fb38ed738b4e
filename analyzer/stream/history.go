package stream

import (
	"math"
	"slices"
	"time"
)

const (
	day = 24 * time.Hour
	// reach is how far back points are compared.
	reach = 7 * day
	// maxKept bounds the points kept of reach: of points closer than two minutes, some are left out.
	maxKept = 5_040
	// spans of a course: the value, and means of the 1, 1, 2, 4, 8, 16 and 32 values before it.
	spans = 7
	// before is how many values before the present one its course and its roughness need.
	before = 1<<(spans-1) - 1
	// around is how many points before and after the same time of day are compared.
	around = 3
	// tolerance is how far from the same time of day the nearest point may be.
	tolerance = time.Hour
)

// course is a value and the means of those before it.
type course [spans]float64

// history is what a detector keeps of a series.
type history struct {
	times    []int64 // Unix milliseconds, ascending
	values   []float64
	previous []float64 // the value before each, kept or not
	courses  []course
	evidence []float64
}

// recent are the last values, oldest first.
type recent []float64

func (r *recent) add(value float64) {
	if len(*r) == before {
		copy(*r, (*r)[1:])
		*r = (*r)[:before-1]
	}
	*r = append(*r, value)
}

// course returns the course of a value that follows; false: there are too few values.
func (r recent) course(value float64) (c course, ok bool) {
	if len(r) < before {
		return c, false
	}
	c[0] = value
	for i, end := 1, len(r); i < spans; i++ {
		width := 1 << (i - 1)
		for _, v := range r[end-width : end] {
			c[i] += v / float64(width)
		}
		end -= width
	}
	return c, true
}

// roughness is the mean difference between neighbours of the last values, value included.
func (r recent) roughness(value float64) (sum float64) {
	r = r[len(r)-roughOver:]
	for i := range r {
		next := value
		if i+1 < len(r) {
			next = r[i+1]
		}
		sum += math.Abs(next-r[i]) / roughOver
	}
	return sum
}

// add keeps a point, and forgets those older than reach.
func (h *history) add(at int64, value, previous, evidence float64, c course) {
	if n := len(h.times); n > 0 && at-h.times[n-1] < reach.Milliseconds()/maxKept {
		return
	}
	h.times, h.values = append(h.times, at), append(h.values, value)
	h.previous, h.courses = append(h.previous, previous), append(h.courses, c)
	h.evidence = append(h.evidence, evidence)
	old, _ := slices.BinarySearch(h.times, at-(reach+tolerance).Milliseconds())
	if old <= len(h.times)/8 { // moving the rest each time would cost more than the comparisons
		return
	}
	h.times, h.values = slices.Delete(h.times, 0, old), slices.Delete(h.values, 0, old)
	h.previous, h.courses = slices.Delete(h.previous, 0, old), slices.Delete(h.courses, 0, old)
	h.evidence = slices.Delete(h.evidence, 0, old)
}

// sameTime is what the points at the same time of day say of a value.
type sameTime struct {
	toMedian  float64 // difference to their median
	toNearest float64 // to the nearest of them and of the points around them
	usual     float64 // evidence that they and the points around them had on two days
}

// sameTime compares a value with the points at the same time of day; false: there are none.
func (h *history) sameTime(at int64, value float64) (s sameTime, ok bool) {
	var buffer [reach / day]float64
	same, most := buffer[:0], 0.0
	s.toNearest = math.Inf(1)
	for then := at - day.Milliseconds(); then >= at-reach.Milliseconds(); then -= day.Milliseconds() {
		i, _ := slices.BinarySearch(h.times, then)
		if i == len(h.times) || i > 0 && then-h.times[i-1] < h.times[i]-then {
			i--
		}
		if i < 0 || max(then-h.times[i], h.times[i]-then) > tolerance.Milliseconds() {
			continue
		}
		same = append(same, h.values[i])
		from, to := max(0, i-around), min(len(h.values), i+around+1)
		for _, v := range h.values[from:to] {
			s.toNearest = min(s.toNearest, math.Abs(value-v))
		}
		that := slices.Max(h.evidence[from:to])
		s.usual, most = max(s.usual, min(most, that)), max(most, that)
	}
	if len(same) == 0 {
		return s, false
	}
	slices.Sort(same)
	n := len(same)
	s.toMedian = math.Abs(value - (same[(n-1)/2]+same[n/2])/2)
	return s, true
}

// nearestPair is the distance of the pair (value, previous) to the nearest kept one.
func (h *history) nearestPair(value, previous float64) float64 {
	best := math.Inf(1)
	before := h.previous[:len(h.values)]
	for i, v := range h.values {
		x, y := value-v, previous-before[i]
		best = min(best, x*x+y*y)
	}
	return math.Sqrt(best)
}

// nearestCourse is the distance to the nearest kept course, each span in its own unit.
func (h *history) nearestCourse(c course, unit *course) float64 {
	var scale course
	for i := range scale {
		scale[i] = 1 / unit[i]
	}
	best := math.Inf(1)
	for k := range h.courses {
		other, sum := &h.courses[k], 0.0
		for i := range spans / 2 { // most others are given up after these
			x := (c[i] - other[i]) * scale[i]
			sum += x * x
		}
		if sum >= best {
			continue
		}
		for i := spans / 2; i < spans; i++ {
			x := (c[i] - other[i]) * scale[i]
			sum += x * x
		}
		best = min(best, sum)
	}
	return math.Sqrt(best)
}
