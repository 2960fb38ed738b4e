package idle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gputally/gputally/internal/meter"
)

// Config has the thresholds.
type Config struct {
	// MinDuration is the shortest run that is found, without bridged time.
	MinDuration time.Duration `yaml:"min_duration"`
	// Bridge is the longest time without evidence that a proven run may span.
	Bridge time.Duration `yaml:"bridge"`
}

// DefaultConfig is half an hour, and no bridge.
func DefaultConfig() Config { return Config{MinDuration: 30 * time.Minute} }

// shortest is what the ledger keeps of every hour: see meter.RestRun.
const shortest = 10 * time.Minute

// longSlot is the length of the longest usual slot.
const longSlot = time.Minute

// Validate returns an error that names the field and its value.
func (c Config) Validate() error {
	if c.MinDuration < shortest {
		return fmt.Errorf("min_duration %s: must be at least %s", c.MinDuration, shortest)
	}
	if c.Bridge < 0 || c.Bridge > time.Hour {
		return fmt.Errorf("bridge %s: must be from 0 to 1h", c.Bridge)
	}
	return nil
}

// Series is an owner on a leaf. Line tells apart several with the same names in an hour.
type Series struct {
	Cluster, GPU, Leaf, Profile, Tenant, Project, Workload string
	Line                                                   int
}

// String names the series in errors.
func (s Series) String() string {
	return strings.Join([]string{s.Cluster, s.GPU, s.Leaf, s.Tenant, s.Project, s.Workload}, "/")
}

// Hour is the ledger's time of one series in one UTC hour; amounts in slice-ms.
type Hour struct {
	Start         time.Time // UTC
	UntilMS       int64     // the part that the ledger has counted
	Node, User    string
	Model         string
	Slices        uint16 // of one GPU: what slice-ms are divided by
	ProfileSlices uint16 // of the leaf's profile
	Active, Idle  uint64
	Parked        uint64 // of Idle: with an open CUDA context
	Rest          []meter.RestRun
}

// Part is what a run has in one hour.
type Part struct {
	Hour          time.Time
	Model         string
	Slices        uint16
	ProfileSlices uint16
	SliceMS       uint64
}

// Run is a stretch of a hold without work.
type Run struct {
	Series
	Node, User   string
	From, To     time.Time
	Rest         time.Duration // From to To, without bridged time
	Grade        meter.RestGrade
	Parts        []Part
	ParkedMS     uint64 // slice-ms, by the share of parked time in each hour's idle time
	NeverStarted bool   // there was no work since the hold began
	Open         bool   // it reaches the end of what the cluster's ledger has counted
	Released     bool   // the hold was seen to end with it: time that nobody observed is no release
}

// Finder finds the runs of many series.
type Finder struct {
	config Config
	series map[Series]*state
	done   func(Run)
}

// state is what is remembered of a series.
type state struct {
	next    time.Time // the end of the newest hour
	worked  bool      // since the hold began
	run     *Run
	end     time.Time // of the run with what it may bridge
	bridged []bridged // after the run's last proven time
}

// bridged is time with too little evidence that the open run may turn out to span.
type bridged struct {
	series Series
	hour   Hour
	run    meter.RestRun
}

// New returns a Finder that passes each run that has ended, and is long enough, to done.
func New(config Config, done func(Run)) *Finder {
	return &Finder{config: config, series: map[Series]*state{}, done: done}
}

// Add takes the next hour of a series. An hour between two that is missing means that the
// series didn't hold the leaf.
func (f *Finder) Add(s Series, h *Hour) error {
	st := f.series[s]
	switch {
	case st == nil:
		st = &state{next: h.Start}
		f.series[s] = st
	case h.Start.Before(st.next):
		return fmt.Errorf("hours of %s are out of order: %s after one that ends at %s", s, h.Start.Format(time.RFC3339),
			st.next.Format(time.RFC3339))
	case h.Start.After(st.next):
		f.close(st)
		st.worked = false
	}
	st.next = h.Start.Add(time.Hour)
	for _, r := range h.Rest {
		f.rest(st, s, h, r)
	}
	if h.Active > 0 {
		st.worked = true
	}
	if st.run != nil && st.end.Before(at(h.Start, h.UntilMS)) {
		f.close(st)
	}
	return nil
}

// rest adds a stretch to the open run, or begins one.
func (f *Finder) rest(st *state, s Series, h *Hour, r meter.RestRun) {
	from, to := at(h.Start, r.FromMS), at(h.Start, r.ToMS)
	if st.run != nil && !st.end.Equal(from) {
		st.worked = (st.worked || h.Active > 0) && !st.run.Released
		f.close(st)
	}
	for st.run != nil && r.Grade != st.run.Grade {
		if st.run.Grade == meter.RestProven && to.Sub(st.run.To) <= f.config.Bridge {
			st.end, st.bridged = to, append(st.bridged, bridged{s, *h, r})
			return
		}
		// The hold ended within the slot after the run: meter marks this too, but not from one hour to the next.
		st.run.Released = st.run.Released || (r.Released && r.Grade == meter.RestUnknown && from.Equal(st.run.To) &&
			to.Sub(from) <= longSlot)
		f.finish(st)
	}
	if st.run == nil {
		if r.Grade == meter.RestUnknown {
			return
		}
		st.run = &Run{
			Series: s, From: from, Grade: r.Grade,
			NeverStarted: !st.worked && (h.Active == 0 || r.FromMS == 0),
		}
	}
	st.run.add(h, r, to)
	st.end, st.bridged = to, nil
}

// add adds a stretch of the run's grade.
func (run *Run) add(h *Hour, r meter.RestRun, to time.Time) {
	run.To, run.Node, run.User, run.Released = to, h.Node, h.User, r.Released
	run.Rest += time.Duration(r.ToMS-r.FromMS) * time.Millisecond
	n := len(run.Parts)
	if n == 0 || !run.Parts[n-1].Hour.Equal(h.Start) {
		run.Parts = append(run.Parts, Part{Hour: h.Start, Model: h.Model, Slices: h.Slices, ProfileSlices: h.ProfileSlices})
		n++
	}
	run.Parts[n-1].SliceMS += uint64(r.SliceMS)
	if run.Grade == meter.RestProven && h.Idle > 0 {
		run.ParkedMS += uint64(float64(h.Parked) * float64(r.SliceMS) / float64(h.Idle))
	}
}

// close ends the open run, and those that begin in what it might have bridged.
func (f *Finder) close(st *state) {
	for st.run != nil {
		f.finish(st)
	}
}

// finish ends the open run. What it might have bridged may begin another one.
func (f *Finder) finish(st *state) {
	run, left := st.run, st.bridged
	st.run, st.bridged = nil, nil
	if run.Rest >= f.config.MinDuration {
		f.done(*run)
	}
	for i := range left {
		f.rest(st, left[i].series, &left[i].hour, left[i].run)
	}
}

// Unfinished returns the runs that reach the end of their series' newest hour, and are long enough already. They are
// open if that hour is the newest one of their cluster.
func (f *Finder) Unfinished(newest map[string]time.Time) (runs []Run) {
	for s, st := range f.series {
		if st.run != nil && st.run.Rest >= f.config.MinDuration {
			run := *st.run
			run.Open = !run.Released && st.next.Equal(newest[s.Cluster].Add(time.Hour))
			runs = append(runs, run)
		}
	}
	return runs
}

// Settle ends the series that have no hour from an instant on, and forgets them: a later hour of theirs is a new hold.
func (f *Finder) Settle(before time.Time) {
	for s, st := range f.series {
		if st.next.Before(before) {
			f.close(st)
			delete(f.series, s)
		}
	}
}

// Clone is a Finder of the same state that passes its runs to another function.
func (f *Finder) Clone(done func(Run)) *Finder {
	clone := &Finder{config: f.config, series: make(map[Series]*state, len(f.series)), done: done}
	for s, st := range f.series {
		of := *st
		if st.run != nil {
			run := *st.run
			run.Parts = slices.Clone(run.Parts)
			of.run, of.bridged = &run, slices.Clone(st.bridged)
		}
		clone.series[s] = &of
	}
	return clone
}

func at(hour time.Time, ms int64) time.Time { return hour.Add(time.Duration(ms) * time.Millisecond) }
