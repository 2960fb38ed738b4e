package stream

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// labelled is a generated series with the index at which each planted anomaly begins.
type labelled struct {
	family string
	kinds  []string // of the anomalies
	times  []time.Time
	values []float64
	begins []int
}

// families are kinds of series; rhythm and rest fill a series' regular and random parts.
var families = []string{
	"daily", "weekly", "spiky", "levels", "bursts", "walk", "irregular", "trend", "period", "counts", "still", "skewed",
}

// maker generates one series.
type maker struct {
	*labelled
	rng    *rand.Rand
	step   time.Duration
	rhythm []float64 // what repeats
	rest   []float64 // noise, levels, bursts
	count  int       // of anomalies
}

// generate makes a series of a family; equal seeds give equal series.
func generate(family string, seed uint64) labelled {
	rng := rand.New(rand.NewPCG(seed, uint64(slices.Index(families, family))+1))
	steps := []time.Duration{5, 5, 5, 5, 10, 30, 60}
	m := maker{&labelled{family: family}, rng, steps[rng.IntN(len(steps))] * time.Minute, nil, nil, 0}
	n := 2500 + rng.IntN(3000)
	m.clock(n)
	m.rhythm, m.rest = make([]float64, n), make([]float64, n)
	m.fill()
	m.plant()
	return *m.labelled
}

func (m *maker) between(low, high float64) float64 { return low + (high-low)*m.rng.Float64() }

// clock fills in the times: irregular ones have jitter, missing points and gaps of hours.
func (m *maker) clock(n int) {
	at := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	gap := m.family == "irregular"
	for len(m.times) < n {
		m.times = append(m.times, at)
		step := float64(m.step)
		if gap {
			step *= m.between(0.5, 1.5)
			if m.rng.Float64() < 0.03 {
				step *= float64(2 + m.rng.IntN(4))
			}
			if m.rng.Float64() < 0.001 {
				step += m.between(2, 14) * float64(time.Hour)
			}
		}
		at = at.Add(time.Duration(step).Round(time.Second))
	}
}

// bump is 1 at the middle of the day's peak, and 0 at night.
func bump(day float64) float64 { return math.Pow(max(0, math.Sin(math.Pi*math.Mod(day+10, 1))), 3) }

func (m *maker) days(i int) float64 { return m.times[i].Sub(m.times[0]).Hours() / 24 }

func (m *maker) fill() {
	phase, noise := m.rng.Float64(), m.between(0.03, 0.12)
	weekend := m.between(0.2, 0.6)
	strength := map[int]float64{}
	day := func(i int) float64 { // daily rhythm, whose height varies from day to day
		d := m.days(i) + phase
		k := int(d)
		if strength[k] == 0 {
			strength[k] = 1 + 0.06*m.rng.NormFloat64()
		}
		return strength[k] * (bump(d) + 0.3*bump(2*d))
	}
	ar := 0.0
	auto := func(phi float64) float64 {
		ar = phi*ar + math.Sqrt(1-phi*phi)*m.rng.NormFloat64()
		return ar
	}
	phi := m.between(0, 0.8)
	switch m.family {
	case "daily", "irregular":
		for i := range m.rhythm {
			m.rhythm[i], m.rest[i] = day(i), noise*auto(phi)
		}
	case "weekly":
		for i := range m.rhythm {
			m.rhythm[i] = day(i)
			if int(m.days(i)+phase)%7 >= 5 {
				m.rhythm[i] *= weekend
			}
			m.rest[i] = noise * auto(phi)
		}
	case "spiky":
		m.spiky(noise, phi)
	case "levels":
		m.levels(noise)
	case "bursts":
		m.bursts(noise)
	case "walk":
		slow := m.between(0.99, 0.998)
		for i := range m.rest {
			m.rest[i] = auto(slow) + noise*m.rng.NormFloat64()
		}
	case "trend":
		slope, bend := m.between(-2, 2), m.between(-2, 2)
		for i := range m.rest {
			x := float64(i) / float64(len(m.rest))
			m.rhythm[i] = 0.3 * day(i)
			m.rest[i] = slope*x + bend*x*x + noise*auto(phi)
		}
	case "period":
		hours, turn := m.between(2, 9)*m.step.Minutes()/5, 0.0
		for i := range m.rest {
			turn += m.step.Hours() / (hours * (1 + 0.2*math.Sin(m.days(i)/3)))
			m.rhythm[i], m.rest[i] = math.Sin(2*math.Pi*turn), noise*auto(phi)
		}
	case "counts":
		rate := m.between(2, 25)
		for i := range m.rest {
			m.rest[i] = m.poisson(rate * (0.15 + day(i)) * math.Exp(0.2*m.rng.NormFloat64()))
		}
	case "still":
		m.still()
	case "skewed":
		sigma := m.between(0.3, 0.7)
		for i := range m.rest {
			m.rest[i] = (0.3 + day(i)) * math.Exp(sigma*auto(phi))
		}
	}
	scale, offset := math.Pow(10, m.between(-1, 5)), m.between(-0.5, 3)
	m.values = make([]float64, len(m.rest))
	for i := range m.rest {
		m.rhythm[i] *= scale
		m.rest[i] = (m.rest[i] + offset) * scale
	}
}

// spiky is a processor's load: low, with short spikes at random and a nightly job.
func (m *maker) spiky(noise, phi float64) {
	rate, nightly, ar := m.between(0.003, 0.02), m.rng.Float64(), 0.0
	left, height := 0, 0.0
	for i := range m.rest {
		ar = phi*ar + math.Sqrt(1-phi*phi)*m.rng.NormFloat64()
		if m.rng.Float64() < rate {
			left, height = 1+m.rng.IntN(4), math.Exp(0.5*m.rng.NormFloat64())
		}
		m.rest[i] = 0.3 * noise * ar
		if left > 0 {
			left--
			m.rest[i] += height
		}
		if math.Mod(m.days(i)+nightly, 1) < max(0.02, 1.5*m.step.Hours()/24) {
			m.rhythm[i] = 1.5
		}
	}
}

// levels are jobs that come and go: a few levels, each held for hours.
func (m *maker) levels(noise float64) {
	heights := make([]float64, 2+m.rng.IntN(3))
	for i := range heights {
		heights[i] = float64(i) + m.between(-0.3, 0.3)
	}
	stay, now := m.between(20, 100), 0
	for i := range m.rest {
		if m.rng.Float64() < 1/stay {
			now = m.rng.IntN(len(heights))
		}
		m.rest[i] = heights[now] + 0.5*noise*m.rng.NormFloat64()
	}
}

// bursts are short and come every few hours.
func (m *maker) bursts(noise float64) {
	every, wide := int(m.between(30, 100)), 2+m.rng.IntN(5)
	next := m.rng.IntN(every)
	for i := range m.rest {
		m.rest[i] = 0.3 * noise * math.Abs(m.rng.NormFloat64())
		if i >= next && i < next+wide {
			m.rhythm[i] = 1 + 0.1*m.rng.NormFloat64()
		} else if i == next+wide {
			next += every + m.rng.IntN(3) - 1
		}
	}
}

// still is nearly constant, in whole steps, and changes by one now and then.
func (m *maker) still() {
	rare := m.between(0.002, 0.05)
	for i := range m.rest {
		if m.rng.Float64() < rare {
			m.rest[i] = 0.1 * float64(m.rng.IntN(5)-2)
		} else if i > 0 && m.rng.Float64() < 0.7 {
			m.rest[i] = m.rest[i-1]
		}
	}
}

func (m *maker) poisson(rate float64) float64 {
	if rate > 30 {
		return max(0, math.Round(rate+math.Sqrt(rate)*m.rng.NormFloat64()))
	}
	n, p := 0.0, math.Exp(-rate)
	for u := m.rng.Float64(); u > p; n++ {
		u *= m.rng.Float64()
	}
	return n
}

// suits are the anomalies that a person would see in each family.
func (m *maker) suits() []string {
	all := []string{"spike", "dip", "level", "flatline", "frequency", "variance"}
	switch m.family {
	case "daily", "weekly", "irregular":
		return append(all, "missing", "extra", "missing", "extra")
	case "bursts":
		return []string{"spike", "level", "missing", "extra", "frequency"}
	case "still":
		return []string{"spike", "dip", "level", "variance"}
	case "levels":
		return []string{"spike", "dip", "level", "frequency", "variance"}
	case "spiky":
		return []string{"spike", "level", "frequency", "variance"}
	case "walk":
		return []string{"spike", "dip", "level", "flatline", "variance"}
	case "counts", "skewed":
		return []string{"spike", "level", "flatline", "missing", "extra"}
	}
	return all
}

// plant puts zero to three anomalies after the first 18 % of the series.
func (m *maker) plant() {
	n := len(m.rest)
	count := []int{0, 1, 1, 2, 2, 3}[m.rng.IntN(6)]
	m.count = count
	sorted := make([]float64, n)
	for i := range sorted {
		sorted[i] = m.rhythm[i] + m.rest[i]
	}
	slices.Sort(sorted)
	wide := sorted[n-1-n/200] - sorted[n/200]
	kinds := m.suits()
	for k := range count {
		room := int(0.8 * float64(n) / float64(count))
		at := int(0.18*float64(n)) + k*room + m.rng.IntN(room*3/4)
		kind := kinds[m.rng.IntN(len(kinds))]
		m.kinds, m.begins = append(m.kinds, kind), append(m.begins, at)
		m.change(kind, at, wide)
	}
	for i := range m.values {
		m.values[i] += m.rhythm[i] + m.rest[i]
		switch m.family {
		case "counts":
			m.values[i] = max(0, math.Round(m.values[i]))
		}
	}
	for k, kind := range m.kinds {
		if kind == "flatline" {
			for i := m.begins[k]; i < min(n, m.begins[k]+m.long(k)); i++ {
				m.values[i] = m.values[m.begins[k]]
			}
		}
	}
}

// long is how many points a lasting anomaly has: its end lies in its window.
func (m *maker) long(k int) int {
	return int(0.05 * float64(len(m.rest)) / float64(m.count) * (0.4 + 0.1*float64(m.begins[k]%6)))
}

// change applies an anomaly to the parts of the series; wide is the series' range.
func (m *maker) change(kind string, at int, wide float64) {
	n := len(m.rest)
	to := min(n, at+m.long(len(m.begins)-1))
	size := wide * m.between(0.6, 1.6)
	switch kind {
	case "spike", "dip":
		if kind == "dip" {
			size = -size
		}
		for i := at; i < min(n, at+1+m.rng.IntN(6)); i++ {
			m.values[i] += size * m.between(0.85, 1)
		}
	case "level":
		size *= 0.7 * float64(1-2*m.rng.IntN(2))
		if m.family == "counts" || m.family == "skewed" || m.family == "spiky" {
			size = math.Abs(size)
		}
		if m.rng.IntN(2) == 0 {
			to = n
		}
		for i := at; i < to; i++ {
			m.values[i] += size
		}
	case "frequency":
		old := slices.Clone(m.rhythm)
		for i := at; i < to; i++ {
			m.rhythm[i] = old[min(n-1, at+3*(i-at))] + 0.15*wide*float64(1-2*(i%2))
		}
	case "variance":
		mean := 0.0
		for i := at; i < to; i++ {
			mean += m.rest[i] / float64(to-at)
		}
		noise := 0.1 * wide
		for i := at; i < to; i++ {
			m.rest[i] = mean + 2*(m.rest[i]-mean) + 2*noise*m.rng.NormFloat64()
		}
	case "missing", "extra":
		m.peak(kind, at)
	}
}

// peak removes the next peak of the rhythm, or adds one where the rhythm is low. The
// anomaly begins where the difference does.
func (m *maker) peak(kind string, at int) {
	n, k := len(m.rest), len(m.begins)-1
	parts := [][]float64{m.rhythm}
	if m.family == "counts" || m.family == "skewed" {
		parts = [][]float64{m.rest}
	}
	r := parts[0]
	sorted := slices.Sorted(slices.Values(r))
	low, high := sorted[0], sorted[n-1-n/20]
	if m.family == "bursts" {
		high = sorted[n-1]
	}
	ofDay := int(24 * time.Hour / m.step)
	if m.family == "bursts" {
		for kind == "missing" && at < n-1 && r[at] < (low+high)/2 {
			at++
		}
		for i := at; i < min(n, at+7); i++ {
			r[i] = low
			if kind == "extra" {
				r[i] = high
			}
		}
		m.begins[k] = at
		return
	}
	day := slices.Clone(r[at:min(n, at+ofDay)])
	if kind == "missing" {
		first := len(day)
		for i := range day {
			if day[i] > low+0.25*(high-low) {
				first = min(first, i)
				r[at+i] = m.quiet(r, low, high, at+i)
			}
		}
		m.begins[k] = at + min(first, len(day)-1)
		return
	}
	for i := range day {
		if day[i] < low+0.25*(high-low) {
			for j := i; j < min(len(day), i+max(3, ofDay/8)); j++ {
				r[at+j] = max(r[at+j], low+0.8*(high-low)*m.between(0.9, 1))
			}
			m.begins[k] = at + i
			return
		}
	}
}

// quiet is a value of the rhythm's low part.
func (m *maker) quiet(r []float64, low, high float64, at int) float64 {
	for range 50 {
		if v := r[m.rng.IntN(at)]; v < low+0.25*(high-low) {
			return v
		}
	}
	return low
}
