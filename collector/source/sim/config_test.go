package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/wire"
)

func TestDemoFleetSaysWhatItIs(t *testing.T) {
	s, gpus := demo(t), 0
	for _, n := range s.fleet.nodes {
		gpus += len(n.boards)
	}
	if gpus != 32 || len(s.tenants) != 6 || !strings.HasSuffix(s.config.Cluster, "-sim") {
		t.Errorf("%d GPUs, %d tenants, cluster %q", gpus, len(s.tenants), s.config.Cluster)
	}
}

func TestValidateNamesWhatIsWrong(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		"cluster is empty": func(c *Config) { c.Cluster = "" },
		"window_to":        func(c *Config) { c.WindowTo = c.WindowFrom },
	} {
		c := DefaultConfig()
		spoil(&c)
		if _, err := New(c, Deps{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
}

// TestLanesHaveOneWorkload: a lane has one habit, a gang stays on a node, and
// instances fit their board.
func TestLanesHaveOneWorkload(t *testing.T) {
	s, taken := demo(t), map[int]string{}
	for _, u := range s.units {
		for _, lane := range u.lanes {
			if other, ok := taken[lane]; ok {
				t.Errorf("lane %d is both %s's and %s's", lane, other, u.Name)
			}
			taken[lane] = u.Name
			if s.fleet.homes[lane].node != s.fleet.homes[u.lanes[0]].node {
				t.Errorf("%s spans nodes", u.Name)
			}
		}
	}
	if len(taken) != len(s.fleet.homes) {
		t.Errorf("%d of %d lanes have a workload", len(taken), len(s.fleet.homes))
	}
}

// TestHoldsGoOnOverMidnight reads both sides of each midnight, which stand in
// different day plans: whoever holds a leaf to the end of one day holds it
// from the start of the next, and nobody else does.
func TestHoldsGoOnOverMidnight(t *testing.T) {
	s := demo(t)
	holds := func(at time.Time, open func(*wire.Hold) bool) map[string]string {
		out := map[string]string{}
		for _, b := range read(t, s, at, time.Minute) {
			for _, g := range b.Gpus {
				for _, h := range g.Holds {
					if open(h) {
						out[g.Uuid+"/"+h.Leaf+"/"+h.Owner.Uid+h.Owner.Job] = h.Owner.Namespace + h.Owner.Account
					}
				}
			}
		}
		return out
	}
	for day := 2; day <= 30; day++ {
		midnight := on2026(9, day, 0, 0)
		before := holds(midnight.Add(-time.Minute), func(h *wire.Hold) bool { return h.ToMs == nil })
		after := holds(midnight, func(h *wire.Hold) bool { return h.FromMs == nil })
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("holds over %s (-before +after):\n%s", midnight, diff)
		}
	}
}

// TestIncidentsNeverMeet: the labels are the truth, in every month of a decade.
func TestIncidentsNeverMeet(t *testing.T) {
	s := demo(t)
	all := s.occurrences(span{on2026(1, 1, 0, 0).UnixMilli(), on2026(120, 1, 0, 0).UnixMilli()})
	for i, a := range all {
		for _, b := range all[:i] {
			for _, lane := range a.rule.lanes {
				if !a.clip(b.span).empty() && slices.Contains(b.rule.lanes, lane) {
					t.Fatalf("%q and %q both claim lane %d at %s", a.rule.Label, b.rule.Label, lane, time.UnixMilli(a.from).UTC())
				}
			}
		}
		for _, lane := range a.rule.lanes {
			if _, l := s.fleet.at(lane); l.lanes > 1 {
				t.Fatalf("%q is on a time-sliced leaf", a.rule.Label)
			}
		}
	}
}
