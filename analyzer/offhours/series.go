package offhours

import (
	"maps"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gputally/gputally/analyzer/tail"
)

const (
	day = 24
	// memory is how many hours a series remembers.
	memory = 56 * day
	week   = 7 * day
	// usual is the quantile of the reference hours that is expected.
	usual = 0.75
	// Reach is how much history a verdict depends on.
	Reach = (memory + week) * time.Hour
	// newcomer is how long a series is judged against its peers.
	newcomer = 14 * day
	// unit is the difference in GPU-hours per hour that means nothing.
	unit = 0.5
)

// Held is what one workload held in an hour.
type Held struct {
	Workload string
	User     string // empty: unknown
	GPUHours float64
}

// hour is an hour that was judged, in GPU-hours. A series has up to 1,512 of them, so they are small.
type hour struct {
	held     float32 // as expected where it was flagged
	fresh    float32 // held, without what was carried from working hours
	residual float32 // held, less what was expected
	place
	off, seen bool
	learned   bool // the references had enough to go by
}

// Verdict is what is said of one hour.
type Verdict struct {
	Off      bool
	Observed float64
	Expected float64 // the greatest of the references
	P        float64 // probability of so much or more; 1 where nothing was judged
	Peers    bool    // judged by the residuals of others
	Rhythm   bool    // the references explain at least a fifth of the variance
	Flagged  bool
	Carried  float64 // of Expected: held by the same workloads since working hours
	// Of a flagged hour: the hours that the references were taken from.
	Week, Day []Past
}

// Past is an hour that was compared with.
type Past struct {
	At       time.Time
	GPUHours float64
}

// Series is one tenant's, project's or user's hours in a cluster. Its hours are added in
// order, without a gap.
type Series struct {
	config  Config
	cal     *calendar
	hours   []hour // the newest at the end, at most memory + one week
	count   int    // all that were added
	carried map[string]float64
	people  map[string]*person
	last    map[string]float64 // what was held in the last hour, if it was working time
	open    bool               // an episode is open
	excess  float64            // of the open episode
	kept    []hour             // its hours as they were, from the newest hour back
}

// NewSeries returns a series without hours.
func NewSeries(config Config, cal *calendar) *Series {
	return &Series{config: config, cal: cal}
}

// Add judges the next hour. peers are residuals of other series, for a newcomer.
func (s *Series) Add(start time.Time, uses []Held, seen bool, peers func() *tail.Tail) Verdict {
	h := hour{place: s.cal.place(start), off: s.cal.off(start), seen: seen, learned: s.count >= newcomer}
	v := Verdict{Off: h.off, P: 1, Rhythm: true}
	for _, u := range uses {
		v.Observed += u.GPUHours
	}
	carried := s.carry(&h, uses)
	weekly, daily := s.references(h.place)
	v.Carried = carried
	v.Expected = max(quantile(s.heldAt(weekly)), quantile(s.heldAt(daily)), s.onePerson(&h, uses)) + carried
	residual := rounded(v.Observed - v.Expected)
	h.held, h.residual, h.fresh = float32(v.Observed), float32(residual), float32(v.Observed-carried)
	if h.off && h.seen {
		s.judge(residual, &v, peers)
	} else {
		s.open = false
	}
	if v.Flagged {
		v.Week, v.Day = s.past(start, weekly), s.past(start, daily)
		s.excess += residual
		s.kept = append(s.kept, h)
		h.held, h.residual, h.fresh = float32(v.Expected), 0, float32(v.Expected-carried)
	} else {
		s.settle()
	}
	s.hours = append(s.hours, h)
	s.count++
	if len(s.hours) > memory+week && len(s.kept) == 0 {
		s.hours = slices.Delete(s.hours, 0, week)
	}
	return v
}

// rounded is without the error of floats: a difference of 1e-16 is none.
func rounded(hours float64) float64 { return math.Round(hours*1e9) / 1e9 }

// person is what a user held in working hours.
type person struct {
	today float64   // the most in an hour of the newest day
	date  int       // of today, in days since 1970
	days  []float64 // that of the days before, the newest last
}

// known is on how many days a user must have held something in working hours, and how
// many are remembered.
const (
	known      = 3
	remembered = 28
)

// onePerson is the most that one known user holds now, up to what that user usually holds
// in working hours, at a time of day at which people work: somebody who does in the evening
// or on a Saturday what they do every day is no spike.
func (s *Series) onePerson(h *hour, uses []Held) (most float64) {
	if s.people == nil {
		s.people = map[string]*person{}
	}
	now := map[string]float64{}
	for _, u := range uses {
		if u.User != "" {
			now[u.User] += u.GPUHours
		}
	}
	for user, held := range now {
		p := s.people[user]
		if p == nil {
			p = &person{}
			s.people[user] = p
		}
		if h.off {
			if len(p.days) >= known && s.cal.daytime[int(h.ofWeek)%day] {
				most = max(most, min(held, quantile(slices.Clone(p.days))))
			}
			continue
		}
		if date := s.count / day; date != p.date {
			if p.today > 0 {
				p.days = append(p.days, p.today)
				p.days = p.days[max(len(p.days)-remembered, 0):]
			}
			p.date, p.today = date, 0
		}
		p.today = max(p.today, held)
	}
	return most
}

// settle ends the episode of the hours before. One that is too small to be reported is
// usual from now on.
func (s *Series) settle() {
	if n := len(s.kept); n > 0 && s.excess < s.config.MinGPUHours {
		copy(s.hours[len(s.hours)-n:], s.kept)
	}
	s.kept, s.excess = s.kept[:0], 0
}

// carry follows what the same workloads have held without a pause since working hours:
// since its last two, so that what begins in the very last one is not carried.
func (s *Series) carry(h *hour, uses []Held) (sum float64) {
	now := make(map[string]float64, len(uses))
	for _, u := range uses {
		now[u.Workload] += u.GPUHours
	}
	switch {
	case !h.seen: // no pause is proven: what was carried goes on
	case !h.off:
		s.carried = map[string]float64{}
		for w, held := range now {
			s.carried[w] = min(held, s.last[w])
		}
		s.last = now
	default:
		s.last = nil
		for w := range s.carried {
			if s.carried[w] = min(s.carried[w], now[w]); s.carried[w] == 0 {
				delete(s.carried, w)
			}
		}
	}
	for _, w := range slices.Sorted(maps.Keys(s.carried)) { // in one order: the sum of floats depends on it
		sum += s.carried[w]
	}
	return sum
}

// references are the hours that tell what is usual at a place of the week, as indices: the same hours of the week ± 1
// over four weeks, and the same hours of the day ± 1 over seven days of the same kind.
func (s *Series) references(at place) (weekly, daily []int) {
	n := len(s.hours) // the index that the hour will have
	for k := 1; k <= 4; k++ {
		weekly = s.near(weekly, n-k*week, func(p place) bool {
			d := (int(p.ofWeek-at.ofWeek) + week) % week
			return d <= 1 || d == week-1
		})
	}
	for k, days := 1, 0; k <= 28 && days < 7; k++ {
		before := len(daily)
		daily = s.near(daily, n-k*day, func(p place) bool {
			d := (int(p.ofWeek-at.ofWeek) + week) % day
			return (d <= 1 || d == day-1) && p.working == at.working
		})
		if len(daily) > before {
			days++
		}
	}
	return weekly, daily
}

// near appends the hours around an index that were seen and match.
func (s *Series) near(to []int, index int, match func(place) bool) []int {
	for i := max(index-2, 0); i <= min(index+2, len(s.hours)-1); i++ {
		if h := &s.hours[i]; h.seen && match(h.place) {
			to = append(to, i)
		}
	}
	return to
}

// heldAt is what was held anew in hours.
func (s *Series) heldAt(hours []int) []float64 {
	values := make([]float64, len(hours))
	for k, i := range hours {
		values[k] = float64(s.hours[i].fresh)
	}
	return values
}

// past are hours with their times; now is that of the next one.
func (s *Series) past(now time.Time, hours []int) []Past {
	out := make([]Past, len(hours))
	for k, i := range hours {
		out[k] = Past{now.Add(time.Duration(i-len(s.hours)) * time.Hour).UTC(), float64(s.hours[i].fresh)}
	}
	return out
}

func quantile(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return stat.Quantile(usual, stat.Empirical, values, nil)
}

// judge gives the verdict on an off-hour.
func (s *Series) judge(residual float64, v *Verdict, peers func() *tail.Tail) {
	least := s.config.MinRise
	if s.open {
		least = 0
	}
	if residual <= 0 || residual < least {
		s.open = false
		return
	}
	if s.count < newcomer {
		v.Peers = true
		if others := peers(); others != nil {
			v.P = others.P(residual)
		}
	} else {
		own := tail.New(s.Residuals(nil), unit)
		v.P = own.P(residual)
		v.Rhythm = s.rhythm() >= s.config.MinExplained
	}
	limit := s.config.P
	if s.open {
		limit = s.config.HysteresisP
	}
	s.open = v.P <= limit
	v.Flagged = s.open
}

// Residuals appends those of the off-hours that were seen.
func (s *Series) Residuals(to []float64) []float64 {
	for i := max(len(s.hours)-memory, 0); i < len(s.hours); i++ {
		if h := &s.hours[i]; h.off && h.seen && h.learned {
			to = append(to, float64(h.residual))
		}
	}
	return to
}

// rhythm is the share of the variance that the references explain.
func (s *Series) rhythm() float64 {
	var held, residual []float64
	for i := max(len(s.hours)-memory, 0); i < len(s.hours); i++ {
		if h := &s.hours[i]; h.seen && h.learned {
			held, residual = append(held, float64(h.held)), append(residual, float64(h.residual))
		}
	}
	if len(held) < 2 {
		return 1
	}
	all := stat.Variance(held, nil)
	if all < unit*unit {
		return 1
	}
	return 1 - stat.Variance(residual, nil)/all
}
