package dcgm

import (
	"testing"
	"time"

	"github.com/gputally/gputally/internal/gpusim"
	"github.com/gputally/gputally/internal/wire"
)

func TestBlanksAndGarbage(t *testing.T) {
	r := newRig(t, "gpus 1; mig 0 off; blank 0 203 garbage 4294967295; blank 0 150 garbage 2147483634; blank 0 140 notsupported; blank 0 155 absent; blank 0 1002 garbage 7; blank 0 252 notwatched", nil)
	r.next()
	before := r.counter("gputally_dcgm_values_absent_total", absentBlank)
	status := r.counter("gputally_dcgm_values_absent_total", absentStatus)
	g := r.next().Gpus[0]
	l := g.Leaves[0]
	if l.GpuUtil != nil || l.SmActive != nil {
		t.Errorf("impossible values are believed: utilisation %v, SM activity %v", l.GpuUtil, l.SmActive)
	}
	if l.GrEngineActive == nil {
		t.Error("engine activity is absent")
	}
	for _, id := range []uint32{140, 150, 252} {
		if v, ok := metric(g.MetricFields, g.MetricValues, id); ok {
			t.Errorf("field %d is %v, want absent", id, v)
		}
	}
	r.wantCounter("gputally_dcgm_values_absent_total", absentBlank, before+2)
	r.wantCounter("gputally_dcgm_values_absent_total", absentStatus, status+2)
}

func TestProfilingBlanksAreLeftOutOfTheMean(t *testing.T) {
	r := newRig(t, "gpus 1; activity 0 0.5 0.5 20", nil)
	r.next()
	from := r.slot.Start
	r.watch(5)
	r.sim.Do("blank 0 1002 absent; blank 0 1001 notsupported")
	l := r.next().Gpus[0].Leaves[0]
	want := r.sim.TruthActivity(gpusim.GPU(0), from, from.Add(4*time.Second))
	near(t, "SM activity", l.SmActive, want)
	near(t, "engine activity", l.GrEngineActive, want)
	if l = r.next().Gpus[0].Leaves[0]; l.SmActive != nil || l.GrEngineActive != nil {
		t.Errorf("activity without a sample in the slot is %v, %v, want absent", l.SmActive, l.GrEngineActive)
	}
}

// Windows of samples tile time: what one slot lacks at its end the next has.
func TestSamplesOutOfStepWithSlots(t *testing.T) {
	r := newRig(t, "gpus 1; activity 0 0.5 0.5 27", func(c *Config) { c.Interval = 3 * time.Second })
	r.next()
	from := r.slot.Start
	for _, c := range []struct{ fromS, toS int }{{-1, 8}, {8, 20}} { // samples at 12, 15, 18; 21, 24, 27, 30 s
		lo, hi := from.Add(time.Duration(c.fromS)*time.Second), from.Add(time.Duration(c.toS)*time.Second)
		g := r.next().Gpus[0]
		near(t, "SM activity", g.Leaves[0].SmActive, r.sim.TruthActivity(gpusim.GPU(0), lo, hi))
		energy := r.sim.TruthEnergyMillijoules(0, lo, hi)
		if d := float64(g.GetEnergyMj()) - energy; d > 1 || d < -1 || g.GetEnergySpanMs() != hi.Sub(lo).Milliseconds() {
			t.Errorf("energy is %d mJ over %d ms, want %v over %s", g.GetEnergyMj(), g.GetEnergySpanMs(), energy, hi.Sub(lo))
		}
	}
}

func TestStaleValues(t *testing.T) {
	r := newRig(t, "gpus 2", nil)
	r.next()
	r.next()
	r.sim.Do("stale 1")
	r.next() // values from the slot's start are an interval old at most
	b := r.next()
	g := b.Gpus[1]
	if g.EnergyMj != nil || g.PowerWatts != nil || len(g.MetricFields) > 0 || g.Leaves[0].SmActive != nil || g.Leaves[0].GpuUtil != nil {
		t.Errorf("stale values are believed: %v", g)
	}
	if b.Gpus[0].EnergyMj == nil {
		t.Error("the other GPU lacks its energy")
	}
	if r.counter("gputally_dcgm_values_absent_total", absentStale) == 0 {
		t.Error("no value was counted as stale")
	}
}

func TestCounterReset(t *testing.T) {
	r := newRig(t, "gpus 1", nil)
	r.next()
	r.next()
	r.watch(4)
	r.sim.Do("reset 0")
	b := r.next()
	if g := b.Gpus[0]; !g.EnergyReset || g.GetEnergyMj() < 0 {
		t.Errorf("GPU is %v, want a reset and no negative energy", g)
	}
	diff(t, "events", []string{"0"}, events(b, "reset"))
	if g := r.next().Gpus[0]; g.EnergyReset || g.EnergyMj == nil {
		t.Errorf("GPU is %v, want energy as usual", g)
	}
}

func TestExtraFields(t *testing.T) {
	r := newRig(t, "gpus 2", func(c *Config) {
		c.Fields = []string{"DCGM_FI_DEV_POWER_USAGE_INSTANT", "dcgm_gpu_temp", "110", "DCGM_FI_DEV_ENC_UTIL"}
	})
	r.next()
	g := r.next().Gpus[1]
	for _, id := range []uint32{157, 110, 206} {
		if _, ok := metric(g.MetricFields, g.MetricValues, id); !ok {
			t.Errorf("field %d is absent: %v", id, g.MetricFields)
		}
	}
	seen := map[uint32]int{}
	for _, id := range g.MetricFields {
		if seen[id]++; seen[id] > 1 {
			t.Errorf("field %d stands twice", id)
		}
	}
}

func TestExtraFieldThatDCGMRefuses(t *testing.T) {
	r := newRig(t, "gpus 1; fail-fields 110-110 -13", func(c *Config) { c.Fields = []string{"110"} })
	r.next()
	if g := r.next().Gpus[0]; g.EnergyMj == nil || g.Leaves[0].SmActive == nil {
		t.Errorf("GPU is %v, want all but the extra field", g)
	}
	r.wantCounter("gputally_dcgm_watch_failures_total", watchExtra, 1)
}

func TestFailedRowRemap(t *testing.T) {
	r := newRig(t, "gpus 2", nil)
	r.next()
	r.sim.Do("rowremap 1 failed")
	b := r.next()
	if b.Gpus[0].Unhealthy || !b.Gpus[1].Unhealthy {
		t.Errorf("unhealthy: GPU 0 %v, GPU 1 %v, want GPU 1 alone", b.Gpus[0].Unhealthy, b.Gpus[1].Unhealthy)
	}
}

func TestReadWithoutWatch(t *testing.T) {
	r := newRig(t, "gpus 1; activity 0 0.75", nil)
	r.src.Close()
	r.start()
	r.pass(slotMS * time.Millisecond)
	b, err := r.readNow()
	if err != nil || len(b.Gpus) != 1 || b.Gpus[0].Leaves[0].SmActive != nil {
		t.Errorf("first reading is %v, %v, want a GPU without activity", b, err)
	}
	r.pass(slotMS * time.Millisecond)
	b, err = r.readNow()
	if err != nil {
		t.Fatal(err)
	}
	near(t, "SM activity", b.Gpus[0].Leaves[0].SmActive, 0.75)
	if b.Origin != wire.Origin_ORIGIN_LIVE {
		t.Errorf("origin is %v, want live", b.Origin)
	}
}

func TestSlotShorterThanTheInterval(t *testing.T) {
	r := newRig(t, "gpus 1; activity 0 0.25", func(c *Config) { c.Interval = 30 * time.Second })
	r.next()
	r.next()
	near(t, "SM activity", r.next().Gpus[0].Leaves[0].SmActive, 0.25)
}
