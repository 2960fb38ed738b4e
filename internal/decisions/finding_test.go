package decisions

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/costtest"
)

const findingID32 = "0123456789abcdef0123456789abcdef"

// found is the finding with that ID.
var found = Target{ID: findingID32, Kind: "idle_allocation", Tenant: "ml", Project: "p", Workload: "w"}

// findingOf is an action on found.
func findingOf(action string) Finding {
	f := Finding{Action: action, Target: Target{ID: found.ID, Kind: found.Kind}}
	switch action {
	case FindingMute:
		f.Owner, f.Reason, f.Until = "ops", "rollout", at(48)
	case FindingJudge:
		f.Verdict = VerdictFalse
	}
	return f
}

func muteUntil(until time.Time) Finding {
	f := findingOf(FindingMute)
	f.Until = until
	return f
}

// TestNewestActionOfEachSortCounts: an action replaces the last of its sort and no other,
// clear ends all, and what comes after it counts again.
func TestNewestActionOfEachSortCounts(t *testing.T) {
	f := &folded{tb: t, state: NewState()}
	judged := func(verdict string) Finding { j := findingOf(FindingJudge); j.Verdict = verdict; return j }
	var want Marks
	for i, step := range []struct {
		who  string
		body Finding
		then func()
	}{
		{"ann", findingOf(FindingAck), func() { want.AcknowledgedBy = "ann" }},
		{"bob", findingOf(FindingAck), func() { want.AcknowledgedBy = "bob" }},
		{"ann", findingOf(FindingMute), func() { want.MutedUntil, want.MuteOwner, want.MuteReason = at(48), "ops", "rollout" }},
		{"ann", muteUntil(at(12)), func() { want.MutedUntil = at(12) }},
		{"ann", judged(VerdictUseful), func() { want.Judged = VerdictUseful }},
		{"bob", judged(VerdictPlanned), func() { want.Judged = VerdictPlanned }},
		{"cat", findingOf(FindingClear), func() { want = Marks{} }},
		{"cat", findingOf(FindingClear), func() {}},
		{"ann", findingOf(FindingAck), func() { want.AcknowledgedBy = "ann" }},
	} {
		f.must(f.record(KindFinding, step.who, step.body))
		step.then()
		if diff := cmp.Diff(want, f.state.Findings().Marks(found, at(1))); diff != "" {
			t.Errorf("step %d, marks (-want +got):\n%s", i, diff)
		}
		if f.state.Findings().Has(found) != (want != Marks{}) {
			t.Errorf("step %d: it has marks: %t", i, f.state.Findings().Has(found))
		}
	}
	if other := f.state.Findings().Marks(Target{ID: "ffffffffffffffffffffffffffffffff"}, at(1)); other != (Marks{}) {
		t.Errorf("another finding has %+v", other)
	}
}

// TestPatternsMuteWhatFits compares every pattern of the finding's own values, other values
// and wildcards with a plain comparison of the fields.
func TestPatternsMuteWhatFits(t *testing.T) {
	fits := func(p Target) bool {
		return (p.Kind == "" || p.Kind == found.Kind) && (p.Tenant == "" || p.Tenant == found.Tenant) &&
			(p.Project == "" || p.Project == found.Project) && (p.Workload == "" || p.Workload == found.Workload)
	}
	fitting := 0
	for n := 1; n < 81; n++ {
		pick := func(digit int, own string) string { return []string{"", own, "other"}[n/digit%3] }
		pattern := Target{Kind: pick(1, found.Kind), Tenant: pick(3, found.Tenant), Project: pick(9, found.Project), Workload: pick(27, found.Workload)}
		f := &folded{tb: t, state: NewState()}
		mute := muteUntil(at(48))
		mute.Target = pattern
		f.must(f.record(KindFinding, "ann", mute))
		if got := f.state.Findings().Marks(found, at(1)).Muted(); got != fits(pattern) {
			t.Errorf("%+v: muted %t", pattern, got)
		}
		if fits(pattern) {
			fitting++
		}
		f.must(f.record(KindFinding, "ann", Finding{Action: FindingClear, Target: pattern}))
		if f.state.Findings().Marks(found, at(1)).Muted() {
			t.Errorf("%+v: muted after clear", pattern)
		}
	}
	if fitting != 15 {
		t.Errorf("%d patterns fit, want 15", fitting)
	}
}

// TestAMuteEndsByItself, at its end; of several the one that ends last counts, and clear of
// the finding leaves a pattern's.
func TestAMuteEndsByItself(t *testing.T) {
	f := &folded{tb: t, state: NewState()}
	byPattern := Finding{Action: FindingMute, Target: Target{Tenant: "ml"}, Owner: "ml-lead", Reason: "move", Until: at(6)}
	f.must(f.record(KindFinding, "ann", byPattern))
	f.must(f.record(KindFinding, "ann", muteUntil(at(12))))
	marks := func(hour int) Marks { return f.state.Findings().Marks(found, at(hour)) }
	if m := marks(1); m.MuteOwner != "ops" || !m.MutedUntil.Equal(at(12)) {
		t.Errorf("marks %+v, want the longer mute's", m)
	}
	if m := f.state.Findings().Marks(found, at(12).Add(-1)); !m.Muted() {
		t.Error("a mute ended before its end")
	}
	if m := marks(12); m != (Marks{}) {
		t.Errorf("after the end: %+v", m)
	}
	f.must(f.record(KindFinding, "ann", findingOf(FindingClear)))
	if m := marks(1); m.MuteOwner != "ml-lead" || !m.MutedUntil.Equal(at(6)) || m.MuteReason != "move" {
		t.Errorf("after clear of the finding: %+v, want the pattern's mute", m)
	}
}

func TestScoresCountTheVerdictsThatStand(t *testing.T) {
	f := &folded{tb: t, state: NewState()}
	judge := func(n int, kind, verdict string) {
		f.must(f.record(KindFinding, "ann", Finding{
			Action: FindingJudge, Target: Target{ID: fmt.Sprintf("%032x", n), Kind: kind}, Verdict: verdict,
		}))
	}
	judge(1, "idle_allocation", VerdictUseful)
	judge(2, "idle_allocation", VerdictFalse)
	judge(3, "idle_allocation", VerdictPlanned)
	judge(3, "idle_allocation", VerdictUseful) // another opinion
	judge(4, "off_hours_spike", VerdictPlanned)
	judge(5, "off_hours_spike", VerdictFalse)
	f.must(f.record(KindFinding, "ann", Finding{Action: FindingClear, Target: Target{ID: fmt.Sprintf("%032x", 5)}}))
	f.must(f.record(KindFinding, "ann", Finding{Action: FindingAck, Target: Target{ID: fmt.Sprintf("%032x", 6)}}))
	want := map[string]Score{"idle_allocation": {Useful: 2, False: 1}, "off_hours_spike": {Planned: 1}}
	if diff := cmp.Diff(want, f.state.Findings().Scores()); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}

// TestMarksAreBounded: the newest targets keep theirs, in bounded memory and time, and any
// number of actions on one target counts as one.
func TestMarksAreBounded(t *testing.T) {
	s := NewState()
	mark := func(n int) {
		f := Finding{Action: FindingAck, Target: Target{ID: fmt.Sprintf("%032x", n%(3*maxMarked/2))}}
		if refusal := f.admit(s, place{offset: int64(n), appended: at(0), record: &Record{Who: "ann"}}); refusal != "" {
			t.Fatal(refusal)
		}
		if !s.findings.Has(f.Target) {
			t.Fatalf("action %d: the newest target has no marks", n)
		}
	}
	costtest.Within(t, costtest.Time, 1<<30, func() {
		for n := range 3 * maxMarked {
			mark(n)
			if len(s.findings.targets) > maxMarked {
				t.Fatalf("%d targets after %d actions", len(s.findings.targets), n)
			}
		}
	})
	offsets := slices.Sorted(func(yield func(int64) bool) {
		for m := range maps.Values(s.findings.targets) {
			if !yield(m.offset) {
				return
			}
		}
	})
	n := len(offsets)
	if n < maxMarked*9/10 || offsets[0] != int64(3*maxMarked-n) || offsets[n-1] != 3*maxMarked-1 {
		t.Errorf("%d targets from offset %d to %d, want the newest", n, offsets[0], offsets[n-1])
	}
	for n := range 2 * maxMarked {
		f := findingOf(FindingAck)
		f.admit(s, place{offset: int64(3*maxMarked + n), appended: at(0), record: &Record{Who: "ann"}})
	}
	if len(s.findings.targets) < maxMarked*9/10 {
		t.Errorf("%d targets after actions on one", len(s.findings.targets))
	}
}

// TestFoldOfBodiesIsThatOfTheLog: a reader of the accepted records alone comes to the same marks.
func TestFoldOfBodiesIsThatOfTheLog(t *testing.T) {
	f := &folded{tb: t, state: NewState()}
	var alone Findings
	for i, b := range []Finding{findingOf(FindingAck), muteUntil(at(0)), findingOf(FindingMute), findingOf(FindingJudge)} {
		out := f.record(KindFinding, "ann", b)
		if !out.Accepted {
			continue
		}
		text, err := json.Marshal(b)
		var read Finding
		if err != nil || json.Unmarshal(text, &read) != nil {
			t.Fatalf("body %d: %s, %v", i, text, err)
		}
		alone.Fold(Decided[Finding]{Offset: out.Offset, Who: "ann", Body: read})
	}
	if diff := cmp.Diff(f.state.Findings().Marks(found, at(1)), alone.Marks(found, at(1))); diff != "" {
		t.Errorf("marks (-log +alone):\n%s", diff)
	}
}
