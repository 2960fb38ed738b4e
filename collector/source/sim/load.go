package sim

const (
	ppm        = 1_000_000
	blockMS    = 20_000 // activity is constant in a block; divides the hour
	restWander = 11     // power at rest varies within [restWatts, restWatts+restWander)
	dayMS      = 86_400_000
	busyPPM    = 5_000 // R13's threshold of activity
)

// span is [from, to) in Unix milliseconds.
type span struct{ from, to int64 }

func (s span) clip(o span) span { return span{max(s.from, o.from), min(s.to, o.to)} }
func (s span) empty() bool      { return s.to <= s.from }
func (s span) len() int64       { return max(0, s.to-s.from) }
func (s span) has(t int64) bool { return s.from <= t && t < s.to }

// without removes a window from ascending, disjoint spans.
func without(spans []span, cut span) []span {
	var out []span
	for _, s := range spans {
		if l := (span{s.from, min(s.to, cut.from)}); !l.empty() {
			out = append(out, l)
		}
		if r := (span{max(s.from, cut.to), s.to}); !r.empty() {
			out = append(out, r)
		}
	}
	return out
}

// load is a run's activity: a pure function of time.
type load struct {
	kind kind
	seed uint64
	base int64  // ppm of the leaf
	peak int64  // inference: ms of the UTC day of the busiest hour
	open []span // notebooks: working hours of the day
}

// level is the activity in a block, in ppm.
func (l *load) level(block int64) int64 {
	switch l.kind {
	case training:
		// A checkpoint every 30 minutes: mostly the disk is busy.
		if (block+int64(l.seed>>40))%90 == 0 {
			return 60_000
		}
		return l.base + l.noise(block, 40_000)
	case inference:
		return 50_000 + l.base*l.daylight(block*blockMS)/1000 + l.noise(block, 30_000)
	case notebook:
		return l.cells(block)
	case batch, spike:
		return l.base + l.noise(block, 20_000)
	default:
		return 0
	}
}

func (l *load) noise(block, amplitude int64) int64 {
	return below(derive(l.seed, block), amplitude)
}

// daylight is a triangle over the day: 1000 at the peak, 0 twelve hours later.
func (l *load) daylight(ms int64) int64 {
	off := ((ms-l.peak)%dayMS + dayMS) % dayMS
	return 1000 - min(off, dayMS-off)*1000/(dayMS/2)
}

// cells is occasional use of a notebook: in a third of the five-minute intervals of working hours.
func (l *load) cells(block int64) int64 {
	at := block * blockMS
	for _, o := range l.open {
		if o.has(at) {
			h := derive(l.seed, block/15)
			if h%100 < 35 {
				return 150_000 + below(h, 500_000)
			}
		}
	}
	return 0
}

// tally is a lane's totals over a time: activity in ppm-ms, time with evidence of work in ms, energy above rest in
// mJ.
type tally struct {
	activity, busyMS, energyMJ int64
}

// add integrates a run over a time. Power is whole watts in each block, so the sum doesn't depend on how the time is
// divided.
func (t *tally) add(l *load, leaf *leaf, s span) {
	for from := s.from; from < s.to; {
		block := floorDiv(from, blockMS)
		to := min(s.to, (block+1)*blockMS)
		level, ms := l.level(block), to-from
		t.activity += level * ms
		if level >= busyPPM {
			t.busyMS += ms
		}
		t.energyMJ += level * leaf.dynNum / leaf.dynDen * ms
		from = to
	}
}

// restEnergyMJ is the board's energy at rest; it varies every five minutes.
func (b *board) restEnergyMJ(s span) int64 {
	const stretch = 15 * blockMS
	sum := int64(0)
	for from := s.from; from < s.to; {
		k := floorDiv(from, stretch)
		to := min(s.to, (k+1)*stretch)
		sum += (b.RestWatts + below(derive(b.seed, k), restWander)) * (to - from)
		from = to
	}
	return sum
}
