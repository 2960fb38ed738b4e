package decisions

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gputally/gputally/internal/wire"
)

// AnyCollector as a run's Collector lets batches of any collector in.
const AnyCollector = "*"

// MaxRunHours is how long a run may stay open; a forgotten run ends by itself.
const MaxRunHours = 31 * 24

// Cluster declares a cluster and its slot length, which never changes (R11).
type Cluster struct {
	Name   string `json:"name"`
	SlotMS int64  `json:"slot_ms"` // whole seconds that divide the hour
}

func (c *Cluster) check() error {
	return join(name("name", c.Name), slotLength(c.SlotMS))
}

// Run is an operator's permission to send batches that no live collector measured. It
// is open from its append time until it is ended, for at most Hours.
type Run struct {
	ID        string    `json:"id"`
	Cluster   string    `json:"cluster"`
	SlotMS    int64     `json:"slot_ms"` // of the cluster; declares it if it isn't declared yet
	Sends     string    `json:"sends"`   // wire.SendsImport, SendsReplay, SendsSimulated or SendsFill
	Collector string    `json:"collector"`
	From      time.Time `json:"from"` // the slots lie in [from, to), UTC
	To        time.Time `json:"to"`
	Hours     int       `json:"hours"` // 1 to MaxRunHours
}

// Check names every invalid field.
func (r Run) Check() error {
	r.ID = cmp.Or(r.ID, "new")
	return r.check()
}

func (r *Run) check() error {
	errs := []error{
		name("id", r.ID), name("cluster", r.Cluster), slotLength(r.SlotMS), name("collector", r.Collector),
		oneOf("sends", r.Sends, wire.SendsImport, wire.SendsReplay, wire.SendsSimulated, wire.SendsFill),
		instant("from", r.From), instant("to", r.To),
	}
	if !r.From.Before(r.To) {
		errs = append(errs,
			fmt.Errorf("to is %s, want it after from, %s", r.To.Format(time.RFC3339), r.From.Format(time.RFC3339)))
	}
	if r.Hours < 1 || r.Hours > MaxRunHours {
		errs = append(errs, fmt.Errorf("hours is %d, want 1 to %d", r.Hours, MaxRunHours))
	}
	return join(errs...)
}

// RunEnd ends a run: batches appended later don't belong to it.
type RunEnd struct {
	ID string `json:"id"`
}

func (r *RunEnd) check() error { return join(name("id", r.ID)) }

func slotLength(ms int64) error {
	if ms < 1000 || ms%1000 != 0 || time.Hour.Milliseconds()%ms != 0 {
		return fmt.Errorf("slot_ms is %d, want whole seconds that divide the hour", ms)
	}
	return nil
}

// OpenRun is a run with its end, which may be in the future.
type OpenRun struct {
	Decided[Run]
	Ends  time.Time // by the broker's clock; batches appended later are not accepted
	Ended string    // who ended it; empty: nobody has
}

// Runs returns all runs, in order.
func (s *State) Runs() []OpenRun {
	var out []OpenRun
	for i := range s.runs {
		out = append(out, *s.runs[i])
	}
	return out
}

func (c *Cluster) refuse(s *State, _ place) string { return s.otherLength(c.Name, c.SlotMS) }

func (c *Cluster) admit(s *State, at place) string {
	if refusal := c.refuse(s, at); refusal != "" {
		return refusal
	}
	s.declare(at, c.Name, c.SlotMS)
	return ""
}

func (s *State) otherLength(cluster string, slotMS int64) string {
	if d, known := s.clusters[cluster]; known && d.Body.SlotMS != slotMS {
		return fmt.Sprintf("slot_ms is %d: cluster %q has slots of %d ms since offset %d", slotMS, cluster,
			d.Body.SlotMS, d.Offset)
	}
	return ""
}

// declare keeps the first declaration of a cluster.
func (s *State) declare(at place, cluster string, slotMS int64) {
	if _, known := s.clusters[cluster]; !known {
		s.clusters[cluster] = entry(at, &Cluster{Name: cluster, SlotMS: slotMS})
	}
}

func (r *Run) refuse(s *State, _ place) string {
	if refusal := s.otherLength(r.Cluster, r.SlotMS); refusal != "" {
		return refusal
	}
	if first := s.byID[r.ID]; first != nil {
		return fmt.Sprintf("id %q is taken, by %s at offset %d", r.ID, first.Who, first.Offset)
	}
	return ""
}

func (r *Run) admit(s *State, at place) string {
	if refusal := r.refuse(s, at); refusal != "" {
		return refusal
	}
	s.declare(at, r.Cluster, r.SlotMS)
	e := entry(at, r)
	run := &OpenRun{Decided: e, Ends: e.Appended.Add(time.Duration(r.Hours) * time.Hour)}
	s.runs = append(s.runs, run)
	s.byID[r.ID] = run
	s.byCluster[r.Cluster] = append(s.byCluster[r.Cluster], run)
	return ""
}

func (r *RunEnd) refuse(s *State, _ place) string {
	switch run := s.byID[r.ID]; {
	case run == nil:
		return fmt.Sprintf("run %q doesn't exist", r.ID)
	case run.Ended != "":
		return fmt.Sprintf("run %q was already ended by %s at %s", r.ID, run.Ended, run.Ends.Format(time.RFC3339))
	}
	return ""
}

func (r *RunEnd) admit(s *State, at place) string {
	if refusal := r.refuse(s, at); refusal != "" {
		return refusal
	}
	run := s.byID[r.ID]
	run.Ended = at.record.Who
	if appended := at.appended.UTC(); appended.Before(run.Ends) {
		run.Ends = appended
	}
	return ""
}

// Sent describes a batch for PermissionFor. Sends is empty for a live batch.
type Sent struct {
	Cluster, Collector, Sends string
	SlotMS                    int64
	Start                     time.Time // of the slot
	Appended                  time.Time // by the broker's clock
}

// Permission is what was decided about a batch. It depends on nothing that was appended
// after the batch, so the answer is the same for every reader at any time.
type Permission struct {
	SlotMS int64     // the declared slot length of the cluster; 0: not declared
	Since  time.Time // when that declaration was appended
	// Missing describes the run that a batch that is not live would need; empty: there
	// was one.
	Missing string
}

// PermissionFor returns what was decided about a batch.
func (s *State) PermissionFor(b Sent) Permission {
	c := s.clusters[b.Cluster]
	l := Permission{SlotMS: c.Body.SlotMS, Since: c.Appended}
	if b.Sends != "" {
		l.Missing = s.uncovered(b)
	}
	return l
}

// uncovered is empty if an open run covered the batch. Otherwise it says why the
// nearest of the cluster's runs, the newest of equals, doesn't.
func (s *State) uncovered(b Sent) string {
	var nearest *OpenRun
	runs, most := s.byCluster[b.Cluster], -1
	for i := len(runs) - 1; i >= 0; i-- {
		fits := runs[i].fits(b)
		if fits == fitsAll {
			return ""
		}
		if fits > most {
			nearest, most = runs[i], fits
		}
	}
	if nearest == nil {
		return fmt.Sprintf("no run was opened for cluster %q", b.Cluster)
	}
	return fmt.Sprintf("run %q %s", nearest.Body.ID, nearest.lacks(most))
}

// How much of a batch matches a run.
const (
	fitsCluster = iota
	fitsKind
	fitsCollector
	fitsWindow
	fitsOpening
	fitsAll
)

func (r *OpenRun) fits(b Sent) int {
	run, end := &r.Body, b.Start.Add(time.Duration(b.SlotMS)*time.Millisecond)
	switch {
	case run.Sends != b.Sends:
		return fitsCluster
	case run.Collector != AnyCollector && run.Collector != b.Collector:
		return fitsKind
	case b.Start.Before(run.From) || end.After(run.To):
		return fitsCollector
	case b.Appended.Before(r.Appended):
		return fitsWindow
	case b.Appended.After(r.Ends):
		return fitsOpening
	}
	return fitsAll
}

// lacks says why a run doesn't cover a batch that matches it only so far.
func (r *OpenRun) lacks(fits int) string {
	switch fits {
	case fitsCluster:
		return "sends " + r.Body.Sends
	case fitsKind:
		return fmt.Sprintf("is for collector %q", r.Body.Collector)
	case fitsCollector:
		return fmt.Sprintf("is for the slots from %s to %s", r.Body.From.Format(time.RFC3339), r.Body.To.Format(time.RFC3339))
	case fitsWindow:
		return fmt.Sprintf("was opened at %s, after the batch was appended", r.Appended.Format(time.RFC3339))
	}
	return fmt.Sprintf("was open until %s", r.Ends.Format(time.RFC3339))
}

// PermissionFor returns what was decided about a batch, as of the last read.
func (l *Log) PermissionFor(b Sent) (p Permission) {
	l.View(func(s *State) { p = s.PermissionFor(b) })
	return p
}
