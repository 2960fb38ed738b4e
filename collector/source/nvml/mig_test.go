package nvml

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/collector/source/local"
	"github.com/gputally/gputally/internal/gpusim"
	"github.com/gputally/gputally/internal/wire"
)

// TestFiftySixInstances: each has its own activity, and no GPU has GPU_UTIL.
func TestFiftySixInstances(t *testing.T) {
	r := newRig(t, "gpus 8; mig all 1g.10gb*7")
	r.read()
	from := r.sim.Now()
	b := r.read()
	uuids := map[string]bool{}
	for i, g := range b.Gpus {
		if len(g.Leaves) != 7 || !g.Mig || g.Slices != 7 {
			t.Fatalf("GPU %d has %d leaves of %d slices, MIG %v; want 7 of 7", i, len(g.Leaves), g.Slices, g.Mig)
		}
		for _, l := range g.Leaves {
			uuids[l.MigUuid] = true
			if l.Profile != "1g.10gb" || l.Slices != 1 || l.GetCi() != 0 || l.GpuUtil != nil {
				t.Errorf("leaf is %v", l)
			}
			r.near("SM activity of "+l.Id, l.SmActive, r.sim.TruthActivity(gpusim.GPUInstance(i, int(l.GetGi())), from, r.sim.Now()))
			if used := metric(field.FBUsed, l.MetricFields, l.MetricValues); used == nil || *used < 1 || *used > 9984 {
				t.Errorf("memory used of leaf %s is %v, want some of 9984 MiB", l.Id, used)
			}
			if pcie := metric(1009, l.MetricFields, l.MetricValues); pcie != nil {
				t.Errorf("leaf %s has PCIe traffic, which is the board's", l.Id)
			}
		}
		r.near("SM activity of the board", metric(field.SMActive, g.MetricFields, g.MetricValues), r.sim.TruthActivity(gpusim.GPU(i), from, r.sim.Now()))
		if metric(204, g.MetricFields, g.MetricValues) != nil || metric(field.RowRemapFailure, g.MetricFields, g.MetricValues) != nil {
			t.Errorf("GPU %d has utilisation or remapped rows with MIG", i)
		}
		if g.EnergyMj == nil || g.PowerWatts == nil {
			t.Errorf("GPU %d has no energy or power", i)
		}
	}
	if len(uuids) != 56 {
		t.Errorf("%d MIG UUIDs, want 56 that differ", len(uuids))
	}
	if got := r.sim.Calls("nvmlDeviceGetGpuInstances"); got != 0 {
		t.Errorf("GPU instances without compute instances were looked for %d times on full boards", got)
	}
	if got := r.sim.Calls("nvmlDeviceGetUtilizationRates"); got != 0 {
		t.Errorf("utilisation was asked for %d times with MIG", got)
	}
}

// TestMixedNode has GPUs with and without MIG, and compute instances, which have
// no activity of their own where they are parts.
func TestMixedNode(t *testing.T) {
	r := newRig(t, "gpus 3; mig 1 3g.40gb/1c+2c 2g.20gb 1g.10gb; mig 2 on")
	r.read()
	b := r.read()
	want := [][]string{{"gpu "}, {"gi1ci0 1c.3g.40gb", "gi1ci1 2c.3g.40gb", "gi5ci0 2g.20gb", "gi13ci0 1g.10gb"}, nil}
	got := [][]string{profiles(b.Gpus[0]), profiles(b.Gpus[1]), profiles(b.Gpus[2])}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("leaves differ (-want +got):\n%s", diff)
	}
	for _, l := range b.Gpus[1].Leaves {
		if has, part := l.SmActive != nil, strings.HasPrefix(l.Profile, "1c") || strings.HasPrefix(l.Profile, "2c"); has == part {
			t.Errorf("leaf %s %s has SM activity: %v", l.Id, l.Profile, has)
		}
		if metric(field.FBUsed, l.MetricFields, l.MetricValues) == nil {
			t.Errorf("leaf %s has no memory", l.Id)
		}
	}
	if slices := []uint32{b.Gpus[1].Leaves[0].Slices, b.Gpus[1].Leaves[1].Slices}; slices[0] != 1 || slices[1] != 2 {
		t.Errorf("compute instances have %v slices, want 1 and 2", slices)
	}
	r.absent(absentPartial, 4)
}

// TestGPUInstanceWithoutComputeInstances hides the MIG devices of the model, which
// always makes them: what is left are the GPU instances.
func TestGPUInstanceWithoutComputeInstances(t *testing.T) {
	r := newRig(t, "gpus 1; mig 0 3g.40gb 4g.40gb; fail nvmlDeviceGetMigDeviceHandleByIndex 6")
	b := r.read()
	if diff := cmp.Diff([]string{"gi2 3g.40gb", "gi1 4g.40gb"}, profiles(b.Gpus[0])); diff != "" {
		t.Errorf("leaves differ (-want +got):\n%s", diff)
	}
	for _, l := range b.Gpus[0].Leaves {
		if l.Ci != nil || l.MigUuid != "" {
			t.Errorf("leaf %v has a compute instance", l)
		}
	}
}

func TestBareInstancesNeedRoot(t *testing.T) {
	r := newRig(t, "gpus 2; mig all 3g.40gb; fail nvmlDeviceGetGpuInstances 4")
	for range 3 {
		if got := len(r.read().Gpus[0].Leaves); got != 1 {
			t.Errorf("%d leaves, want the compute instance", got)
		}
	}
	if got := strings.Count(r.logged(), "only root may list them"); got != 1 {
		t.Errorf("it was said %d times, want once:\n%s", got, r.logged())
	}
	if got := r.sim.Calls("nvmlDeviceGetGpuInstances"); got != 1 {
		t.Errorf("it was tried %d times, want once", got)
	}
}

// TestReconfigurationUnderARunningSource: leaves begin and end with the look that
// noticed, and no instance has another one's activity.
func TestReconfigurationUnderARunningSource(t *testing.T) {
	r := newRig(t, "gpus 1; mig 0 7g.80gb; activity 0 0.9")
	r.read()
	r.read()
	r.pass(3 * time.Second)
	r.src.Watch()
	r.sim.Do("mig 0 3g.40gb 2g.20gb 1g.10gb; activity 0 0.25")
	r.pass(time.Second)
	r.src.Watch()
	g := r.read().Gpus[0]
	var got []string
	for _, l := range g.Leaves {
		from, to := wire.Span(l.FromMs, l.ToMs, 10_000)
		got = append(got, fmt.Sprintf("%s %d-%d %v", l.Profile, from, to, l.SmActive != nil))
	}
	want := []string{"7g.80gb 0-4000 false", "3g.40gb 4000-10000 false", "2g.20gb 4000-10000 false", "1g.10gb 4000-10000 false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("leaves differ (-want +got):\n%s", diff)
	}
	for _, l := range r.read().Gpus[0].Leaves {
		r.near("SM activity of "+l.Profile, l.SmActive, 0.25)
	}
	if alloc, free := r.sim.Calls("nvmlGpmSampleAlloc"), r.sim.Calls("nvmlGpmSampleFree"); alloc != 10 || free != 2 {
		t.Errorf("%d samples were allocated and %d freed, want 10 and 2", alloc, free)
	}
}

// TestMadeAgainBeginsAnew: the same instance, under the same UUID, after a look
// that didn't see it.
func TestMadeAgainBeginsAnew(t *testing.T) {
	r := newRig(t, "gpus 1; mig 0 7g.80gb; activity 0 0.9")
	r.read()
	r.read()
	r.sim.Do("mig 0 on")
	r.pass(time.Second)
	r.src.Watch()
	r.sim.Do("mig 0 7g.80gb; activity 0 0.25")
	r.pass(time.Second)
	g := r.read().Gpus[0]
	for _, l := range g.Leaves {
		if l.SmActive != nil {
			t.Errorf("leaf %v has activity in the slot in which it was made again", l)
		}
	}
	r.near("SM activity", r.read().Gpus[0].Leaves[0].SmActive, 0.25)
}

func TestMIGSwitchedOn(t *testing.T) {
	r := newRig(t, "gpus 1")
	r.read()
	r.sim.Do("mig 0 1g.10gb*2")
	r.pass(2 * time.Second)
	r.src.Watch()
	g := r.read().Gpus[0]
	if diff := cmp.Diff([]string{"gpu ", "gi7ci0 1g.10gb", "gi8ci0 1g.10gb"}, profiles(g)); diff != "" {
		t.Errorf("leaves differ (-want +got):\n%s", diff)
	}
	r.sim.Do("mig 0 off")
	r.read()
	if g := r.read().Gpus[0]; g.Mig || len(g.Leaves) != 1 {
		t.Errorf("GPU is %v, want without MIG", g)
	}
}

// TestInstancesThatCantBeListed: the GPU is left out rather than told wrong.
func TestInstancesThatCantBeListed(t *testing.T) {
	r := newRig(t, "gpus 2; mig 0 1g.10gb*7; fail nvmlDeviceGetMaxMigDeviceCount 999")
	b, err := r.try()
	if err == nil || !strings.Contains(err.Error(), "read gpu GPU-") || !strings.Contains(err.Error(), "count MIG devices") {
		t.Errorf("Read says %v, want which board can't be read and why", err)
	}
	if len(b.Gpus) != 1 || b.Enumeration != wire.Enumeration_ENUMERATION_PARTIAL {
		t.Errorf("batch has %d GPUs, %v; want the other one, partial", len(b.Gpus), b.Enumeration)
	}
	r.src.Watch()
	r.sim.Do("fail nvmlDeviceGetMaxMigDeviceCount off")
	if got := len(r.read().Gpus[0].Leaves); got != 7 {
		t.Errorf("%d leaves, want 7", got)
	}
}

func TestProfileNames(t *testing.T) {
	const h100, h200, a30 = 81559 << 20, 143771 << 20, 24576 << 20
	for _, c := range []struct {
		instanceMB, boardBytes, want uint64
	}{
		{9984, h100, 10},
		{20096, h100, 20},
		{40448, h100, 40},
		{81152, h100, 80},
		{16384, h200, 18},
		{33280, h200, 35},
		{71424, h200, 71},
		{143104, h200, 141},
		{5952, a30, 6},
		{24064, a30, 24},
	} {
		if got := profileGB(c.instanceMB, c.boardBytes); got != c.want {
			t.Errorf("profile of %d MB of %d MiB has %d GB in its name, want %d", c.instanceMB, c.boardBytes>>20, got, c.want)
		}
	}
	s := &Source{}
	g := &gpu{profiles: []profile{{slices: 1, memoryMB: 9984, name: "1g.10gb"}, {slices: 1, memoryMB: 9984, engines: [3]uint32{1, 1, 1}, name: "1g.10gb+me"}, {slices: 3, memoryMB: 40448, name: "3g.40gb"}}}
	for want, a := range map[string]gonvml.DeviceAttributes{
		"1g.10gb":    {GpuInstanceSliceCount: 1, ComputeInstanceSliceCount: 1, MemorySizeMB: 9984},
		"1g.10gb+me": {GpuInstanceSliceCount: 1, ComputeInstanceSliceCount: 1, MemorySizeMB: 9984, SharedDecoderCount: 1, SharedJpegCount: 1, SharedOfaCount: 1},
		"2c.3g.40gb": {GpuInstanceSliceCount: 3, ComputeInstanceSliceCount: 2, MemorySizeMB: 40448},
		"":           {},
	} {
		if got := s.profileOf(g, a); got != want {
			t.Errorf("profile of %+v is %q, want %q", a, got, want)
		}
	}
}

func TestMarkWhole(t *testing.T) {
	g := &gpu{instances: []instance{{key: local.Key{GI: 1}, whole: true}, {key: local.Key{GI: 1, CI: 1}}, {key: local.Key{GI: 2}, whole: true}}}
	markWhole(g)
	if g.instances[0].whole || g.instances[1].whole || !g.instances[2].whole {
		t.Errorf("whole are %v, want only the last", g.instances)
	}
}
