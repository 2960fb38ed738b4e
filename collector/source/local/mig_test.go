package local

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/internal/wire"
)

func (r *rig) wantLives(g *wire.Gpu, want ...life) {
	r.t.Helper()
	if diff := cmp.Diff(want, lives(g)); diff != "" {
		r.t.Errorf("leaves differ (-want +got):\n%s", diff)
	}
}

var (
	three = inst(1, 3, "3g.40gb", "MIG-1")
	four  = inst(2, 4, "4g.40gb", "MIG-2")
	ones  = []Key{inst(7, 1, "1g.10gb", "MIG-7"), inst(8, 1, "1g.10gb", "MIG-8"), inst(9, 1, "1g.10gb", "MIG-9")}
)

func TestReconfigurationWithinASlot(t *testing.T) {
	r := newRig(t, nil)
	r.wantLives(r.gpu(mig(three, four)), life{"gi1ci0", "3g.40gb", 3, 0, slotMS}, life{"gi2ci0", "4g.40gb", 4, 0, slotMS})
	r.count("changes", r.b.metrics.changes, 0)
	r.look(time.Second, mig(three, four))
	r.look(3*time.Second, mig(four))
	r.look(time.Second, mig(append([]Key{four}, ones...)...))
	g := r.gpu(mig(append([]Key{four}, ones...)...))
	r.wantLives(g,
		life{"gi1ci0", "3g.40gb", 3, 0, 4000}, life{"gi2ci0", "4g.40gb", 4, 0, slotMS},
		life{"gi7ci0", "1g.10gb", 1, 5000, slotMS}, life{"gi8ci0", "1g.10gb", 1, 5000, slotMS}, life{"gi9ci0", "1g.10gb", 1, 5000, slotMS},
	)
	r.count("changes", r.b.metrics.changes, 1)
	// The next slot has only what is there.
	if got := len(r.gpu(mig(append([]Key{four}, ones...)...)).Leaves); got != 4 {
		t.Errorf("%d leaves in the slot after, want 4", got)
	}
	r.count("changes", r.b.metrics.changes, 1)
}

// TestMadeAgainUnderTheSameIDs: NVML gives ids out again.
func TestMadeAgainUnderTheSameIDs(t *testing.T) {
	for name, c := range map[string]struct {
		next Key
		want []life
	}{
		"another profile": {inst(1, 4, "4g.40gb", "MIG-x"), []life{{"gi1ci0", "3g.40gb", 3, 0, 2000}, {"gi1ci0.2", "4g.40gb", 4, 2000, slotMS}}},
		"another UUID":    {inst(1, 3, "3g.40gb", "MIG-x"), []life{{"gi1ci0", "3g.40gb", 3, 0, 2000}, {"gi1ci0.2", "3g.40gb", 3, 2000, slotMS}}},
		"the very same":   {three, []life{{"gi1ci0", "3g.40gb", 3, 0, slotMS}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.gpu(mig(three))
			r.look(2*time.Second, mig(c.next))
			r.wantLives(r.gpu(mig(c.next)), c.want...)
		})
	}
}

func TestGoneAndBackWithinASlot(t *testing.T) {
	r := newRig(t, nil)
	r.gpu(mig(three))
	r.look(2*time.Second, mig())
	r.look(2*time.Second, mig(three))
	r.look(2*time.Second, mig())
	r.look(2*time.Second, mig(three))
	r.wantLives(r.gpu(mig(three)),
		life{"gi1ci0", "3g.40gb", 3, 0, 2000}, life{"gi1ci0.2", "3g.40gb", 3, 4000, 6000}, life{"gi1ci0.3", "3g.40gb", 3, 8000, slotMS})
}

func TestMIGModeWithinASlot(t *testing.T) {
	r := newRig(t, nil)
	r.gpu(plain())
	r.look(2*time.Second, mig())
	g := r.gpu(mig(three))
	// The instance was first seen at the slot's end: it is the next slot's.
	r.wantLives(g, life{"gpu", "", 7, 0, 2000})
	if !g.Mig {
		t.Error("MIG is off, want on")
	}
	r.wantLives(r.gpu(mig(three)), life{"gi1ci0", "3g.40gb", 3, 0, slotMS})
	r.look(6*time.Second, plain())
	g = r.gpu(plain())
	r.wantLives(g, life{"gi1ci0", "3g.40gb", 3, 0, 6000}, life{"gpu", "", 7, 6000, slotMS})
	if !g.Mig {
		t.Error("MIG is off in a slot that had instances, want on")
	}
}

// TestFirstInstanceOfAnEmptyBoard begins when it is seen, however long the GPU
// was without.
func TestFirstInstanceOfAnEmptyBoard(t *testing.T) {
	r := newRig(t, nil)
	r.wantLives(r.gpu(mig()))
	r.wantLives(r.gpu(mig()))
	r.look(3*time.Second, mig(three))
	r.wantLives(r.gpu(mig(three)), life{"gi1ci0", "3g.40gb", 3, 3000, slotMS})
}

func TestComputeInstancesReplaceTheirGPUInstance(t *testing.T) {
	r := newRig(t, nil)
	bare := Key{GI: 1, CI: -1, Profile: "3g.40gb", Slices: 3}
	r.wantLives(r.gpu(mig(bare)), life{"gi1", "3g.40gb", 3, 0, slotMS})
	parts := []Key{{GI: 1, CI: 0, Profile: "1c.3g.40gb", Slices: 1}, {GI: 1, CI: 1, Profile: "2c.3g.40gb", Slices: 2}}
	r.look(4*time.Second, mig(parts...))
	g := r.gpu(mig(parts...))
	r.wantLives(g, life{"gi1", "3g.40gb", 3, 0, 4000}, life{"gi1ci0", "1c.3g.40gb", 1, 4000, slotMS}, life{"gi1ci1", "2c.3g.40gb", 2, 4000, slotMS})
	if g.Leaves[0].Ci != nil || g.Leaves[1].GetGi() != 1 || g.Leaves[2].GetCi() != 1 {
		t.Errorf("ids are %v, want GPU instance 1 alone, then its compute instances 0 and 1", g.Leaves)
	}
}

// TestClockStepsBack by less than what cuts the slot (R11): no leaf ends before
// it begins, and none overlap.
func TestClockStepsBack(t *testing.T) {
	r := newRig(t, nil)
	r.gpu(mig(three))
	r.look(5*time.Second, mig(four))
	r.look(-400*time.Millisecond, mig(three))
	r.look(time.Second, mig(four))
	r.wantLives(r.gpu(mig(four)),
		life{"gi1ci0", "3g.40gb", 3, 0, 5000}, life{"gi2ci0", "4g.40gb", 4, 5000, 5000},
		life{"gi1ci0.2", "3g.40gb", 3, 5000, 5600}, life{"gi2ci0.2", "4g.40gb", 4, 5600, slotMS})
}

func TestSlicesByProfile(t *testing.T) {
	r := newRig(t, nil)
	b := mig(Key{GI: 1, CI: 0, Profile: "3g.40gb+me", UUID: "MIG-1"})
	b.Slices = 0
	g := r.gpu(b)
	r.wantLives(g, life{"gi1ci0", "3g.40gb+me", 3, 0, slotMS})
	if g.Slices != 7 {
		t.Errorf("an H100 has %d slices, want 7", g.Slices)
	}
}

func TestUnknownSlicesLeaveTheBoardOut(t *testing.T) {
	model := mig(inst(1, 3, "3g.40gb", ""))
	model.Model, model.Slices = "NVIDIA Z1", 0
	profile := mig(Key{GI: 1, CI: 0, Profile: "3g.41gb"})
	for want, b := range map[string]GPU{
		`gpu GPU-a left out: MIG is on, but the slices of model "NVIDIA Z1" are unknown`:   model,
		`gpu GPU-a left out: profile "3g.41gb" of GPU instance 1 is unknown for model "NV`: profile,
	} {
		r := newRig(t, nil)
		other := plain()
		other.UUID = "GPU-b"
		out, err := r.end(Reading{Complete: true, GPUs: []GPU{b, other}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Batch says %v, want %q", err, want)
		}
		if len(out.Gpus) != 1 || out.Gpus[0].Uuid != "GPU-b" || out.Enumeration != wire.Enumeration_ENUMERATION_PARTIAL {
			t.Errorf("batch has %v, %v; want only GPU-b, partial", out.Gpus, out.Enumeration)
		}
		r.count("GPUs left out", r.b.metrics.unresolved.WithLabelValues(b.Model), 1)
	}
}

func TestValuesOfInstances(t *testing.T) {
	r := newRig(t, nil)
	b := mig(three, four)
	b.Values = []Value{{field.GPUUtil, 50}, {field.SMActive, 0.4}, {field.PowerWatts, 300}, {field.GPUTemp, 40}}
	b.Instances[0].Values = []Value{{field.SMActive, 0.25}, {field.GREngineActive, 0.5}, {field.FBUsed, 1000}, {field.PowerWatts, 300}, {field.GPUUtil, 50}}
	g := r.gpu(b)
	l := g.Leaves[0]
	if l.GetSmActive() != 0.25 || l.GetGrEngineActive() != 0.5 || l.GpuUtil != nil || !slices.Equal(l.MetricFields, []uint32{field.FBUsed}) {
		t.Errorf("leaf is %v, want SM 0.25, GR 0.5, FB_USED and no GPU_UTIL", l)
	}
	if l := g.Leaves[1]; l.SmActive != nil || l.GrEngineActive != nil || len(l.MetricFields) != 0 {
		t.Errorf("leaf without values has %v", l)
	}
	// The GPU's activity is no leaf's; its GPU_UTIL means nothing with MIG.
	if diff := cmp.Diff([]uint32{field.SMActive, field.GPUTemp}, g.MetricFields); diff != "" {
		t.Errorf("the board's metrics differ (-want +got):\n%s", diff)
	}
	if g.GetPowerWatts() != 300 {
		t.Errorf("power is %v W, want 300", g.GetPowerWatts())
	}
	r.absent(absentMIGUtil, 1)
}
