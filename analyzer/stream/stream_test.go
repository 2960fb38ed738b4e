package stream

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// run returns what a new detector says of each point.
func run(t testing.TB, times []time.Time, values []float64) []Result {
	t.Helper()
	return feed(t, New(), times, values)
}

func feed(t testing.TB, d *Detector, times []time.Time, values []float64) []Result {
	t.Helper()
	results := make([]Result, len(times))
	for i, at := range times {
		r, err := d.Add(at, values[i])
		if err != nil {
			t.Fatal(err)
		}
		results[i] = r
	}
	return results
}

// someFamilies are all of them, or a third where time is short.
func someFamilies() []string {
	if testing.Short() {
		return families[:len(families)/3]
	}
	return families
}

func TestResultsDependOnEarlierPointsAlone(t *testing.T) {
	for i, family := range someFamilies() {
		s := generate(family, uint64(i))
		all := run(t, s.times, s.values)
		cut := len(all) / 2
		other := generate(family, uint64(i)+100)
		times, values := slices.Clone(s.times), slices.Clone(s.values)
		for k := cut; k < len(values); k++ { // another future, of another size and step
			times[k] = times[k-1].Add(time.Minute)
			values[k] = -7 * other.values[k%len(other.values)]
		}
		if !slices.Equal(run(t, times, values)[:cut], all[:cut]) {
			t.Errorf("%s: what follows changes what was said before", family)
		}
		if !slices.Equal(run(t, s.times, s.values), all) {
			t.Errorf("%s: the same series gives another result", family)
		}
	}
}

// A unit is no matter: percent and shares, bytes and gigabytes give the same alarms.
func TestScaleChangesNothing(t *testing.T) {
	for i, family := range someFamilies() {
		s := generate(family, uint64(i))
		all := run(t, s.times, s.values)
		for _, factor := range []float64{1 << 20, 1.0 / (1 << 20)} {
			values := slices.Clone(s.values)
			for k := range values {
				values[k] *= factor
			}
			for k, r := range run(t, s.times, values) {
				if math.Abs(r.Score-all[k].Score) > 1e-9 {
					t.Fatalf("%s × %g: point %d scores %v, unscaled %v", family, factor, k, r.Score, all[k].Score)
				}
			}
		}
	}
}

func TestAlarmsWithinTwelveHoursRise(t *testing.T) {
	alarms := 0
	for i, family := range families {
		s := generate(family, uint64(i)+20)
		type alarm struct {
			at    time.Time
			score float64
		}
		var last alarm
		for k, r := range run(t, s.times, s.values) {
			if r.Alarm != (r.Score >= AlarmScore) || r.Score < 0 || r.Score >= 1 || k < warmUp && r.Score > 0 {
				t.Fatalf("%s: point %d: %+v", family, k, r)
			}
			if !r.Alarm {
				continue
			}
			alarms++
			if s.times[k].Sub(last.at) <= defaults.quiet && r.Score <= last.score {
				t.Errorf("%s: alarm of %v at %s follows one of %v", family, r.Score, s.times[k], last.score)
			}
			last = alarm{s.times[k], r.Score}
		}
	}
	if alarms < len(families) {
		t.Errorf("%d alarms", alarms)
	}
}

// flat is noise every five minutes.
func flat(n int, seed uint64) (times []time.Time, values []float64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	at := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for i := range n {
		times = append(times, at.Add(time.Duration(i)*5*time.Minute))
		values = append(values, 50+rng.NormFloat64())
	}
	return times, values
}

func TestWhatRecursCountsLess(t *testing.T) {
	const ofDay = 288
	first, later := 0, 0
	for seed := range uint64(20) {
		times, values := flat(14*ofDay, seed)
		for day := 6; day < 14; day++ {
			for k := range 3 {
				values[day*ofDay+100+k] += 20
			}
		}
		results := run(t, times, values)
		for day := 6; day < 14; day++ {
			alarm := slices.ContainsFunc(results[day*ofDay+100:day*ofDay+103], func(r Result) bool { return r.Alarm })
			if alarm && day == 6 {
				first++
			} else if alarm && day >= 10 {
				later++
			}
		}
	}
	if first != 20 || later > 4 {
		t.Errorf("the first of eight equal peaks is found in %d of 20 series, the last four %d times in 80", first, later)
	}
}

func TestTimestampsThatGoBack(t *testing.T) {
	times, values := flat(900, 1)
	values[800] += 30
	held := slices.Clone(times)
	back := slices.Clone(times)
	for i := 500; i < 512; i++ { // a clock set back by an hour: the latest time counts until it is reached again
		back[i] = times[i].Add(-time.Hour)
		held[i] = times[499]
	}
	if got, want := run(t, back, values), run(t, held, values); !slices.Equal(got, want) || !got[800].Alarm {
		t.Errorf("an hour back: differs from the same points at the latest time")
	}
	d := New()
	feed(t, d, times[:600], values[:600])
	for _, at := range []time.Time{times[599].Add(-24*time.Hour - time.Millisecond), {}} {
		if r, err := d.Add(at, 50); err == nil {
			t.Errorf("%s after %s: %+v", at, times[599], r)
		}
	}
	for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1.01 * Limit, -1.01 * Limit} {
		if r, err := d.Add(times[600], value); err == nil {
			t.Errorf("value %v: %+v", value, r)
		}
	}
	// What was refused has left no trace.
	if got := feed(t, d, times[600:], values[600:]); !slices.Equal(got, run(t, times, values)[600:]) {
		t.Error("a refused point changed what follows")
	}
}

func TestScoresAreFiniteForAnyValues(t *testing.T) {
	series := map[string]func(i int) float64{
		"zero":           func(int) float64 { return 0 },
		"constant":       func(int) float64 { return 1e17 },
		"a step":         func(i int) float64 { return float64(i / 700) },
		"limits":         func(i int) float64 { return Limit * float64(1-2*(i%2)) },
		"one limit":      func(i int) float64 { return map[bool]float64{true: -Limit}[i == 700] },
		"least":          func(i int) float64 { return float64(i%3) * math.SmallestNonzeroFloat64 },
		"all magnitudes": func(i int) float64 { return math.Pow(10, float64(i*7919%290)-145) },
		"growing":        func(i int) float64 { return math.Exp(float64(i) / 5) },
	}
	times, _ := flat(1500, 1)
	for name, value := range series {
		values := make([]float64, len(times))
		for i := range values {
			values[i] = value(i)
		}
		for i, r := range run(t, times, values) {
			if !(r.Score >= 0 && r.Score < 1) {
				t.Fatalf("%s: point %d: %+v", name, i, r)
			}
			if r.Alarm && (name == "zero" || name == "constant") {
				t.Fatalf("%s: alarm at point %d", name, i)
			}
			if first := map[string]int{"a step": 700, "one limit": 700}[name]; i == first && first > 0 && !r.Alarm {
				t.Errorf("%s: no alarm at its first change", name)
			}
		}
	}
}

func TestStateIsBounded(t *testing.T) {
	n, step := 120_000, 6*time.Second
	if testing.Short() {
		n, step = 24_000, 30*time.Second
	}
	d := New()
	rng := rand.New(rand.NewPCG(1, 1))
	most := 0
	for i := range n {
		at := time.Unix(0, 0).Add(time.Duration(i) * step)
		if _, err := d.Add(at, rng.Float64()); err != nil {
			t.Fatal(err)
		}
		most = max(most, cap(d.history.times), cap(d.history.courses), cap(d.peaks))
	}
	if most < maxKept || most > 2*maxKept {
		t.Errorf("of %d points up to %d are kept; want about %d", n, most, maxKept)
	}
	for i := range 1_000_000 { // evidence that only falls, every 50 ms
		d.highest(d.at+int64(i)*50, 100-float64(i)*1e-6)
	}
	if len(d.peaks) > 722 {
		t.Errorf("%d peaks are kept", len(d.peaks))
	}
}

// slowSameTime compares with every kept point.
func slowSameTime(h *history, at int64, value float64) (s sameTime, ok bool) {
	var same, most []float64
	s.toNearest = math.Inf(1)
	for days := int64(1); days <= 7; days++ {
		then, best := at-days*86_400_000, -1
		for i, x := range h.times {
			if best < 0 || max(then-x, x-then) <= max(then-h.times[best], h.times[best]-then) {
				best = i
			}
		}
		if best < 0 || max(then-h.times[best], h.times[best]-then) > 3_600_000 {
			continue
		}
		same, most = append(same, h.values[best]), append(most, 0)
		for i := range h.times {
			if i >= best-3 && i <= best+3 {
				s.toNearest = min(s.toNearest, math.Abs(value-h.values[i]))
				most[len(most)-1] = max(most[len(most)-1], h.evidence[i])
			}
		}
	}
	slices.Sort(same)
	slices.Sort(most)
	n := len(same)
	if n == 0 {
		return s, false
	}
	if n > 1 {
		s.usual = most[n-2]
	}
	s.toMedian = math.Abs(value - same[n/2])
	if n%2 == 0 {
		s.toMedian = math.Abs(value - (same[n/2-1]+same[n/2])/2)
	}
	return s, true
}

func TestTheSameTimeOfDayIsThatOfASlowSearch(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	compared := 0
	for range 200 {
		h, at := history{}, int64(0)
		mean := math.Pow(10, 4+4*rng.Float64())
		for range 50 + rng.IntN(300) {
			at += 1 + int64(rng.ExpFloat64()*mean)
			value := math.Round(rng.NormFloat64() * 20)
			got, ok := h.sameTime(at, value)
			want, wantOK := slowSameTime(&h, at, value)
			if got != want || ok != wantOK {
				t.Fatalf("at %d of %d points: %+v, slowly %+v", at, len(h.times), got, want)
			}
			if ok {
				compared++
			}
			h.add(at, value, 0, math.Round(10*rng.Float64()), course{})
		}
	}
	if compared < 5000 {
		t.Errorf("%d comparisons", compared)
	}
}

func BenchmarkAdd(b *testing.B) {
	for _, step := range []time.Duration{5 * time.Minute, time.Minute, 10 * time.Second} {
		b.Run(step.String(), func(b *testing.B) {
			d, at, rng := New(), time.Unix(0, 0), rand.New(rand.NewPCG(1, 1))
			value := func() float64 { return math.Sin(float64(at.Unix())*2*math.Pi/86400) + 0.1*rng.NormFloat64() }
			for range 8 * day / step { // a full history
				at = at.Add(step)
				if _, err := d.Add(at, value()); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				at = at.Add(step)
				if _, err := d.Add(at, value()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
