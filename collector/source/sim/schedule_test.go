package sim

import (
	"testing"
	"time"
)

// runsOf lists a lane's runs on a day by their start into the day, ms.
func runsOf(s *Source, at time.Time, node string, board, leaf int) map[int64]run {
	out := map[int64]run{}
	for _, r := range s.plan(at.UnixMilli()).lanes[s.fleet.lanesOf([]place{{Node: node, Boards: []int{board}, Leaves: []int{leaf}}})[0]] {
		out[r.from-at.UnixMilli()] = r
	}
	return out
}

// TestJobsDiffer asserts that no two leaves and no two days of a habit are
// copies of each other, and that some jobs end within seconds, between
// milliseconds.
func TestJobsDiffer(t *testing.T) {
	s := demo(t)
	owners, short, odd := map[string]bool{}, 0, 0
	for day := 14; day <= 18; day++ { // Monday to Friday, without incidents here
		at := on2026(9, day, 0, 0)
		a := runsOf(s, at, "sim-node-2", 4, 0)
		b := runsOf(s, at, "sim-node-2", 5, 0)
		next := runsOf(s, at.AddDate(0, 0, 1), "sim-node-2", 4, 0)
		if len(a) < 10 {
			t.Errorf("%s: %d jobs, want at least one for each working hour", at, len(a))
		}
		for from, r := range a {
			if _, same := b[from]; same {
				t.Errorf("%s: both leaves start a job at %d ms", at, from)
			}
			if _, same := next[from]; same {
				t.Errorf("%s: the next day starts a job at %d ms too", at, from)
			}
			if owners[r.owner.uid] {
				t.Errorf("%s: pod %s comes twice", at, r.owner.uid)
			}
			owners[r.owner.uid] = true
			if r.len() <= 20_000 {
				short++
			}
			if r.from%1000 != 0 && r.to%1000 != 0 {
				odd++
			}
		}
	}
	if short == 0 || odd == 0 {
		t.Errorf("%d jobs of seconds, %d between milliseconds, want some of each", short, odd)
	}
}

// TestWorkHoursAreKept asserts that vision, whose spike is planted at night,
// starts nothing outside its working hours otherwise, so that the label is
// true.
func TestWorkHoursAreKept(t *testing.T) {
	s := demo(t)
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for day := 10; day <= 28; day++ {
		for _, r := range runsOf(s, on2026(9, day, 0, 0), "sim-node-2", 4, 0) {
			local := time.UnixMilli(r.from).In(zone)
			weekend := local.Weekday() == time.Saturday || local.Weekday() == time.Sunday
			if r.owner.namespace == "vision" && (weekend || local.Hour() < 8 || local.Hour() >= 18) {
				t.Errorf("vision starts a job at %s", local)
			}
		}
	}
}

func TestNotebooksStayOvernight(t *testing.T) {
	s := demo(t)
	overnight, weekend := 0, 0
	for board := range 2 {
		for leaf := range 7 {
			for _, r := range runsOf(s, on2026(9, 9, 0, 0), "sim-node-3", board, leaf) {
				if r.has(on2026(9, 9, 21, 0).UnixMilli()) {
					overnight++
				}
				if r.owner.user == "" {
					t.Errorf("board %d leaf %d: a notebook without a user", board, leaf)
				}
			}
			weekend += len(runsOf(s, on2026(9, 12, 0, 0), "sim-node-3", board, leaf))
		}
	}
	if overnight < 7 || weekend != 0 {
		t.Errorf("%d notebooks held in the night, want most of 14; %d at the weekend, want none", overnight, weekend)
	}
}
