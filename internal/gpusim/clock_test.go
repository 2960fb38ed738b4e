package gpusim_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/gpusim"
)

func TestVirtualClockStandsStillByItself(t *testing.T) {
	sim := gpusim.Open(t)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if diff := cmp.Diff(start, sim.Now()); diff != "" {
		t.Errorf("time at first (-want +got):\n%s", diff)
	}
	earlier := time.Date(2025, 3, 30, 1, 59, 59, 0, time.UTC)
	sim.SetTime(earlier) // no GPUs yet: the clock starts there
	sim.Do("gpus 1")
	sim.Advance(1500 * time.Millisecond)
	sim.SetTime(earlier.Add(time.Minute))
	if diff := cmp.Diff(earlier.Add(time.Minute), sim.Now()); diff != "" {
		t.Errorf("time at last (-want +got):\n%s", diff)
	}
}

func TestRealClockIsTheMachines(t *testing.T) {
	sim := gpusim.Open(t)
	sim.Do("clock real; gpus 1; activity 0 0.5; at 3600 lost 0")
	first := sim.Now()
	for second := sim.Now(); !second.After(first); {
		second = sim.Now()
	}
	if first.Year() < 2026 || first.Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("the real clock says %v", first)
	}
}

// Lines set for later are executed at their own instants, however long a step of the clock is.
func TestScheduledLinesSplitTheIntegral(t *testing.T) {
	sim := gpusim.Open(t)
	sim.Do("gpus 1; power 0 100 500; activity 0 0; at 10 activity 0 1; at 25 activity 0 0.5; at 10 util 0 7")
	from := sim.Now()
	sim.Advance(time.Hour)
	want := 1e3 * (100*10 + 500*15 + 300*(3600-25))
	if got := sim.TruthEnergyMillijoules(0, from, sim.Now()); got < want-1 || got > want+1 {
		t.Errorf("energy is %.1f mJ, want %.1f", got, want)
	}
	if got := sim.TruthActivity(gpusim.GPU(0), from.Add(5*time.Second), from.Add(20*time.Second)); got < 10.0/15-1e-9 || got > 10.0/15+1e-9 {
		t.Errorf("mean activity is %v, want 2/3", got)
	}
}
