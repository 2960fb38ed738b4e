package nvml

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/internal/gpusim"
	"github.com/gputally/gputally/internal/wire"
)

// TestEightGPUs: every value is the model's truth over just the slot.
func TestEightGPUs(t *testing.T) {
	r := newRig(t, "gpus 8")
	first := r.read()
	if len(first.Gpus) != 8 || first.Gpus[7].Index != 7 {
		t.Fatalf("batch lists %d GPUs, want 8 in their order", len(first.Gpus))
	}
	for _, g := range first.Gpus { // one sample is no mean, one reading no movement
		if l := g.Leaves[0]; l.SmActive != nil || l.GrEngineActive != nil || g.EnergyMj != nil {
			t.Errorf("%s has activity or energy after one reading: %v", g.Uuid, g)
		}
		if p := g.GetPowerWatts(); p < 70 || p > 700 { // the driver's mean, until the counter has moved
			t.Errorf("%s draws %v W, want 70 to 700", g.Uuid, p)
		}
	}
	r.absent(absentFirstSample, 8)
	from := r.sim.Now()
	b := r.read()
	for i, g := range b.Gpus {
		active := r.sim.TruthActivity(gpusim.GPU(i), from, r.sim.Now())
		energy := r.sim.TruthEnergyMillijoules(i, from, r.sim.Now())
		if g.Uuid != first.Gpus[i].Uuid || g.Model != "NVIDIA H100 80GB HBM3" || g.Slices != 7 || g.Mig || g.Unhealthy {
			t.Errorf("GPU %d is %v", i, g)
		}
		r.near("SM activity", g.Leaves[0].SmActive, active)
		r.near("GR activity", g.Leaves[0].GrEngineActive, active)
		r.near("tensor activity", metric(1004, g.MetricFields, g.MetricValues), 0.6*active)
		r.near("DRAM activity", metric(1005, g.MetricFields, g.MetricValues), 0.4*active)
		if math.Abs(float64(g.GetEnergyMj())-energy) > 1 || g.GetEnergySpanMs() != 10_000 {
			t.Errorf("GPU %d took %d mJ in %d ms, want %.0f in 10000", i, g.GetEnergyMj(), g.GetEnergySpanMs(), energy)
		}
		if math.Abs(g.GetPowerWatts()-energy/10_000) > 1e-3 {
			t.Errorf("GPU %d drew %v W, want %v", i, g.GetPowerWatts(), energy/10_000)
		}
		if u := g.Leaves[0].GetGpuUtil(); u <= 0 || u > 100 {
			t.Errorf("GPU_UTIL of GPU %d is %v, want 1 to 100", i, u)
		}
	}
	r.inits(1, 0)
	if got := r.sim.Calls("nvmlGpmSampleAlloc"); got != 16 {
		t.Errorf("%d GPM samples were allocated, want two per GPU", got)
	}
}

// TestFieldsAndUnits: which DCGM fields a GPU has, and three of them by value.
func TestFieldsAndUnits(t *testing.T) {
	r := newRig(t, "gpus 1; activity 0 0.5; temp 0 30 70; replay 0 3; sbe 0 4; dbe 0 2; rowremap 0 correctable 5")
	r.read()
	g := r.read().Gpus[0]
	want := map[uint32]float64{
		100: 1980, 101: 2619, 112: 0, 140: 58, 150: 50, 202: 3, 204: 20, 250: 81559, 251: 24468, 252: 57091, 253: 512,
		310: 4, 311: 2, 312: 4, 313: 2, 393: 0, 394: 5, 395: 0,
		1003: 0.25, 1004: 0.3, 1005: 0.2, 1006: 0.025, 1007: 0.1, 1008: 0.05, 1009: 55e9 * 0.02 * 0.5, 1010: 55e9 * 0.05 * 0.5,
	}
	got := map[uint32]float64{}
	for i, id := range g.MetricFields {
		got[id] = math.Round(g.MetricValues[i]*1e6) / 1e6
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields differ (-want +got):\n%s", diff)
	}
}

func TestBoardWithoutGPM(t *testing.T) {
	r := newRig(t, `gpus 1 model "Tesla T4"; util 0 37`)
	r.read()
	g := r.read().Gpus[0]
	if l := g.Leaves[0]; l.SmActive != nil || l.GrEngineActive != nil || l.GetGpuUtil() != 37 || g.Slices != 1 {
		t.Errorf("GPU is %v, want no activity, GPU_UTIL 37, one slice", g)
	}
	if got := r.sim.Calls("nvmlGpmSampleAlloc"); got != 0 {
		t.Errorf("%d GPM samples were allocated for a board without GPM", got)
	}
}

func TestGPMSwitchedOff(t *testing.T) {
	r := newRig(t, "gpus 1", func(c *Config) { c.GPM = false })
	r.read()
	if l := r.read().Gpus[0].Leaves[0]; l.SmActive != nil {
		t.Errorf("SM activity is %v, want none", *l.SmActive)
	}
	if got := r.sim.Calls("nvmlGpmQueryDeviceSupport"); got != 0 {
		t.Errorf("GPM was asked for %d times", got)
	}
}

// TestGPMWindow: too long a window is another slot's activity, too short a one
// the counters don't see.
func TestGPMWindow(t *testing.T) {
	r := newRig(t, "gpus 1; activity 0 0.5")
	r.read()
	r.slot = r.slot.Next() // one slot isn't read
	if l := r.read().Gpus[0].Leaves[0]; l.SmActive != nil {
		t.Errorf("SM activity over 20 s is %v, want none", *l.SmActive)
	}
	r.absent(absentWindow, 1)
	r.near("SM activity", r.read().Gpus[0].Leaves[0].SmActive, 0.5)

	r.pass(50 * time.Millisecond) // a slot that was cut short ends at once
	batches, err := r.src.Read(t.Context(), r.slot)
	if err != nil || batches[0].Gpus[0].Leaves[0].SmActive != nil {
		t.Errorf("SM activity over 50 ms is %v (%v), want none", batches, err)
	}
	r.absent(absentWindow, 2)
	r.near("SM activity after a window that was too short", r.read().Gpus[0].Leaves[0].SmActive, 0.5)
}

// TestAbsentAndImpossible: what a GPU doesn't have isn't zero, what can't be
// isn't believed.
func TestAbsentAndImpossible(t *testing.T) {
	r := newRig(t, "gpus 2; blank 0 156 notsupported; blank 0 155 notwatched; blank 0 252 notsupported; blank 1 203 garbage 4294967295; ecc 1 off; blank 1 1002 absent")
	r.read()
	b := r.read()
	g := b.Gpus[0]
	if g.EnergyMj != nil || g.PowerWatts != nil || metric(field.FBUsed, g.MetricFields, g.MetricValues) != nil {
		t.Errorf("GPU 0 has energy, power or memory: %v", g)
	}
	g = b.Gpus[1]
	if l := g.Leaves[0]; l.GpuUtil != nil || l.SmActive != nil || l.GrEngineActive == nil {
		t.Errorf("GPU 1 has GPU_UTIL or SM activity, or no GR activity: %v", l)
	}
	if metric(310, g.MetricFields, g.MetricValues) != nil {
		t.Error("GPU 1 has ECC counters with ECC off")
	}
	r.absent("no_data", 2)
	r.absent("not_supported", 2+2+2*4+1) // energy, memory, ECC in both readings, SM in the second
}

// TestNoPermission is said once per what, and costs only that value.
func TestNoPermission(t *testing.T) {
	r := newRig(t, "gpus 2; fail nvmlDeviceGetRemappedRows 4")
	r.read()
	g := r.read().Gpus[0]
	if metric(field.RowRemapFailure, g.MetricFields, g.MetricValues) != nil || g.EnergyMj == nil {
		t.Errorf("GPU is %v, want energy and no remapped rows", g)
	}
	r.absent("no_permission", 4)
	if got := strings.Count(r.logged(), "no permission to read remapped rows"); got != 1 {
		t.Errorf("it was said %d times, want once:\n%s", got, r.logged())
	}
}

func TestInfo(t *testing.T) {
	r := newRig(t, "gpus 2")
	if diff := cmp.Diff(source.Info{}, r.src.Info()); diff != "" {
		t.Errorf("info before a reading (-want +got):\n%s", diff)
	}
	b := r.read()
	info := r.src.Info()
	if info.Driver != "570.124.06" || info.CUDA != "12.8" || info.NVML != "12.570.124.06" || info.DCGM != "" || len(info.GPUs) != 2 {
		t.Errorf("info is %+v", info)
	}
	g := info.GPUs[b.Gpus[1].Uuid]
	if g.VBIOS != "96.00.05.00.01" || g.PCIBusID != "00000000:22:00.0" || g.Serial == "" || g.Minor == nil || *g.Minor != 1 {
		t.Errorf("GPU 1 is %+v", g)
	}
	r.read()
	if got := r.sim.Calls("nvmlSystemGetDriverVersion"); got != 1 {
		t.Errorf("the driver's version was asked for %d times, want once", got)
	}
}

func TestNoGPUs(t *testing.T) {
	r := newRig(t, "gpus 0")
	if b := r.read(); len(b.Gpus) != 0 || b.Attribution != wire.Attribution_ATTRIBUTION_FAILED {
		t.Errorf("batch is %v, want no GPUs", b)
	}
}

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("the default is wrong: %v", err)
	}
	if _, err := New(Config{Library: "libnvidia-ml.so.1"}, nil); err == nil || !strings.Contains(err.Error(), `library "libnvidia-ml.so.1": must be an absolute path`) {
		t.Errorf("New says %v, want that the path must be absolute", err)
	}
}
