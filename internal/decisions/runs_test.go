package decisions

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/costtest"
	"github.com/gputally/gputally/internal/wire"
)

func runOf(id string) Run {
	return Run{
		ID: id, Cluster: "lab", SlotMS: 10_000, Sends: wire.SendsImport, Collector: "import/lab", From: at(0), To: at(24), Hours: 2,
	}
}

// sentOf fits runOf.
func sentOf(appended time.Time) Sent {
	return Sent{Cluster: "lab", Collector: "import/lab", Sends: wire.SendsImport, SlotMS: 10_000, Start: at(3), Appended: appended}
}

// TestH6RunsCoverWhatTheySay: everything about a batch has to fit, and it was
// appended while the run was open; what comes later in the topic changes nothing.
func TestH6RunsCoverWhatTheySay(t *testing.T) {
	f := &folded{tb: t, state: NewState()}
	f.must(f.record(KindAudit, "a", Audit{Action: "note"})) // offset 0: times differ from the first
	f.must(f.record(KindRun, "alice", runOf("r1")))
	opened := appendedAt(1)
	for name, c := range map[string]struct {
		change func(*Sent)
		open   bool
	}{
		"fits":                 {func(*Sent) {}, true},
		"the run's first ms":   {func(s *Sent) { s.Appended = opened }, true},
		"its last":             {func(s *Sent) { s.Appended = opened.Add(2 * time.Hour) }, true},
		"a ms too early":       {func(s *Sent) { s.Appended = opened.Add(-time.Millisecond) }, false},
		"expired":              {func(s *Sent) { s.Appended = opened.Add(2*time.Hour + time.Millisecond) }, false},
		"first slot":           {func(s *Sent) { s.Start = at(0) }, true},
		"last slot":            {func(s *Sent) { s.Start = at(24).Add(-10 * time.Second) }, true},
		"before the window":    {func(s *Sent) { s.Start = at(0).Add(-10 * time.Second) }, false},
		"over the window":      {func(s *Sent) { s.Start = at(24).Add(-9 * time.Second) }, false},
		"another collector":    {func(s *Sent) { s.Collector = "zzz-evil" }, false},
		"another cluster":      {func(s *Sent) { s.Cluster = "prod" }, false},
		"another kind":         {func(s *Sent) { s.Sends = wire.SendsSimulated }, false},
		"a fill":               {func(s *Sent) { s.Sends = wire.SendsFill }, false},
		"live needs no run":    {func(s *Sent) { s.Sends, s.Collector = "", "c" }, true},
		"any name's collector": {func(s *Sent) { s.Collector = AnyCollector }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := sentOf(opened.Add(time.Minute))
			c.change(&s)
			if l := f.state.PermissionFor(s); (l.Missing == "") != c.open {
				t.Errorf("missing %q, want it covered: %v", l.Missing, c.open)
			}
		})
	}
	before := f.state.PermissionFor(sentOf(appendedAt(2)))
	f.must(f.record(KindRunEnd, "bob", RunEnd{ID: "r1"})) // offset 2
	if l := f.state.PermissionFor(sentOf(appendedAt(2))); l != before || l.Missing != "" {
		t.Errorf("the end took back what was covered: %+v, before %+v", l, before)
	}
	if l := f.state.PermissionFor(sentOf(appendedAt(2).Add(time.Millisecond))); !strings.Contains(l.Missing, "open until") {
		t.Errorf("after the end: %+v", l)
	}
	any := runOf("r2")
	any.Collector = AnyCollector
	f.must(f.record(KindRun, "alice", any))
	s := sentOf(appendedAt(3))
	if s.Collector = "whoever"; f.state.PermissionFor(s).Missing != "" {
		t.Error("a run of any collector doesn't cover one")
	}
}

// TestRunsThatAreRefused leave the state as it was.
func TestRunsThatAreRefused(t *testing.T) {
	f := &folded{tb: t, state: NewState()}
	f.must(f.record(KindCluster, "alice", Cluster{Name: "lab", SlotMS: 10_000}))
	f.must(f.record(KindCluster, "alice", Cluster{Name: "lab", SlotMS: 10_000})) // says nothing new
	f.must(f.record(KindRun, "alice", runOf("r1")))
	f.must(f.record(KindRunEnd, "bob", RunEnd{ID: "r1"}))
	changed := func(change func(*Run)) Run {
		r := runOf("r9")
		change(&r)
		return r
	}
	for name, out := range map[string]Outcome{
		"another slot length":  f.record(KindCluster, "bob", Cluster{Name: "lab", SlotMS: 60_000}),
		"a run of another":     f.record(KindRun, "bob", changed(func(r *Run) { r.SlotMS = 60_000 })),
		"an id twice":          f.record(KindRun, "bob", runOf("r1")),
		"ended twice":          f.record(KindRunEnd, "carol", RunEnd{ID: "r1"}),
		"an end of none":       f.record(KindRunEnd, "carol", RunEnd{ID: "r7"}),
		"no hours":             f.record(KindRun, "bob", changed(func(r *Run) { r.Hours = 0 })),
		"for ever":             f.record(KindRun, "bob", changed(func(r *Run) { r.Hours = MaxRunHours + 1 })),
		"an empty window":      f.record(KindRun, "bob", changed(func(r *Run) { r.To = r.From })),
		"another kind":         f.record(KindRun, "bob", changed(func(r *Run) { r.Sends = "live" })),
		"no collector":         f.record(KindRun, "bob", changed(func(r *Run) { r.Collector = "" })),
		"a slot of 7 s":        f.record(KindCluster, "bob", Cluster{Name: "x", SlotMS: 7_000}),
		"a cluster of no name": f.record(KindCluster, "bob", Cluster{SlotMS: 10_000}),
	} {
		if out.Accepted || out.Reason == "" {
			t.Errorf("%s: accepted", name)
		}
	}
	runs := f.state.Runs()
	if len(runs) != 1 || runs[0].Ended != "bob" || !runs[0].Ends.Equal(appendedAt(3)) {
		t.Errorf("runs %+v, want r1, ended by bob", runs)
	}
	if l := f.state.PermissionFor(Sent{Cluster: "lab"}); l.SlotMS != 10_000 || !l.Since.Equal(appendedAt(0)) {
		t.Errorf("cluster lab: %+v, want 10 s since its first declaration", l)
	}
}

// TestARunDeclaresItsCluster where nobody did.
func TestARunDeclaresItsCluster(t *testing.T) {
	f := &folded{tb: t, state: NewState()}
	f.must(f.record(KindRun, "alice", runOf("r1")))
	if l := f.state.PermissionFor(Sent{Cluster: "lab"}); l.SlotMS != 10_000 {
		t.Errorf("cluster lab: %+v", l)
	}
}

// TestManyRunsFoldInLinearTime: each is looked up by its id.
func TestManyRunsFoldInLinearTime(t *testing.T) {
	s := NewState()
	costtest.Within(t, costtest.Time, 1<<30, func() {
		for n := range 100_000 {
			r := runOf(fmt.Sprintf("run-%09d", n))
			if refusal := r.admit(s, place{offset: int64(n), appended: at(0), record: &Record{Who: "alice"}}); refusal != "" {
				t.Fatal(refusal)
			}
		}
	})
}

// TestTheNewestOfEqualRunsIsNamed: of runs that lack the same, and of those the nearest.
func TestTheNewestOfEqualRunsIsNamed(t *testing.T) {
	f := &folded{tb: t, state: NewState()}
	other := runOf("another-collector")
	other.Collector = "import/other"
	f.must(f.record(KindRun, "alice", runOf("old")))
	f.must(f.record(KindRun, "alice", runOf("new")))
	f.must(f.record(KindRun, "alice", other))
	outside := sentOf(appendedAt(1).Add(time.Minute))
	outside.Start = at(48)
	if l := f.state.PermissionFor(outside); !strings.Contains(l.Missing, `"new"`) {
		t.Errorf("a batch outside the window: %q, want it to name run new", l.Missing)
	}
	one := &folded{tb: t, state: NewState()}
	one.must(one.record(KindRun, "alice", runOf("only")))
	if l := one.state.PermissionFor(outside); !strings.Contains(l.Missing, `"only"`) {
		t.Errorf("a batch outside the only run's window: %q, want it to name the run", l.Missing)
	}
}
