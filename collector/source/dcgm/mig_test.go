package dcgm

import (
	"testing"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gputally/gputally/internal/gpusim"
	"github.com/gputally/gputally/internal/wire"
)

// leafOf finds a leaf by profile and whether it is there at the slot's end.
func leafOf(t *testing.T, g *wire.Gpu, id string) *wire.Leaf {
	t.Helper()
	for _, l := range g.Leaves {
		if l.Id == id {
			return l
		}
	}
	t.Fatalf("no leaf %s in %v", id, lives(g))
	return nil
}

func TestReconfigurationWithinASlot(t *testing.T) {
	r := newRig(t, "gpus 2; mig all 3g.40gb 3g.40gb; activity 0/1 0.9; activity 0/2 0.9; activity 1/1 0.25", nil)
	r.next()
	r.watch(4)
	// Entity ids are used again: the new 1g have those of the 3g.
	r.sim.Do("mig 0 off; mig 0 1g.10gb*2 4g.40gb; activity 0/11 0; activity 0/12 0.5; activity 0/1 0.125")
	from := r.slot.Start
	b := r.next()
	g := b.Gpus[0]
	diff(t, "leaves", []life{
		{"gi1ci0", "3g.40gb", 3, 0, 5000},
		{"gi2ci0", "3g.40gb", 3, 0, 5000},
		{"gi11ci0", "1g.10gb", 1, 5000, slotMS},
		{"gi12ci0", "1g.10gb", 1, 5000, slotMS},
		{"gi1ci0.2", "4g.40gb", 4, 5000, slotMS},
	}, lives(g))
	if l := leafOf(t, g, "gi1ci0"); l.SmActive != nil || len(l.MetricFields) > 0 {
		t.Errorf("a leaf that is gone has values: %v", l)
	}
	// Seen at 5 s, so watched from then on: the sample at 7 s is the first.
	for id, e := range map[string]gpusim.Entity{"gi11ci0": gpusim.ComputeInstance(0, 11, 0), "gi12ci0": gpusim.ComputeInstance(0, 12, 0), "gi1ci0.2": gpusim.ComputeInstance(0, 1, 0)} {
		near(t, id, leafOf(t, g, id).SmActive, r.sim.TruthActivity(e, from.Add(5*time.Second), from.Add(9*time.Second)))
	}
	for _, p := range r.src.session.layout.parts {
		since := from.Add(5 * time.Second)
		if p.board == 1 {
			since = from.Add(-slotMS * time.Millisecond)
		}
		if p.leaf >= 0 && p.sinceUS != since.UnixMicro() {
			t.Errorf("instance %v is there since %d, want %d", p.key, p.sinceUS, since.UnixMicro())
		}
	}
	near(t, "the other GPU's leaf", leafOf(t, b.Gpus[1], "gi1ci0").SmActive, 0.25)
	r.next()
	g = r.next().Gpus[0]
	if len(g.Leaves) != 3 {
		t.Errorf("two slots later the leaves are %v, want the three new ones", lives(g))
	}
	near(t, "4g", leafOf(t, g, "gi1ci0").SmActive, 0.125)
}

func TestNoSampleOfTheInstanceBefore(t *testing.T) {
	const s = int64(time.Second / time.Microsecond)
	key := entityKey(godcgm.FE_GPU_CI, 3)
	for name, c := range map[string]struct {
		leaf int
		atS  int64
		n    int
	}{
		"before the slot":            {0, 10, 0},
		"of the instance before":     {0, 13, 0},
		"of both":                    {0, 15, 0},
		"the first of the new alone": {0, 16, 1},
		"at the slot's end":          {0, 20, 1},
		"after the slot":             {0, 21, 0},
		"a board is no other board":  {onBoard, 13, 1},
	} {
		l := &layout{index: map[uint64]int{key: 0}, parts: []part{{leaf: c.leaf, sinceUS: 14 * s}}}
		r := record{group: 5, entity: 3, field: 1002, _type: 'd', value: 0x3fe0000000000000} // 0.5
		for range c.atS {
			r.ts_us += 1_000_000
		}
		l.takeSample(&r, window{10 * s, 20 * s, 2 * s}, 20*s)
		if got := l.parts[0].activity[0]; got.n != c.n || got.sum != 0.5*float64(c.n) {
			t.Errorf("%s: %d samples count with a sum of %v, want %d", name, got.n, got.sum, c.n)
		}
	}
}

// An instance that was made again as it was, as far as DCGM's list tells.
func TestOtherUUIDIsAnotherInstance(t *testing.T) {
	r := newRig(t, "gpus 1; mig 0 7g.80gb; activity 0/0 0.5", nil)
	r.next()
	l := r.src.session.layout
	l.parts[len(l.parts)-1].uuid = 1 // what field 54 said before
	if leaf := r.next().Gpus[0].Leaves[0]; leaf.SmActive != nil || len(leaf.MetricFields) > 0 {
		t.Errorf("leaf %v has values of two instances", leaf)
	}
	r.next()
	near(t, "SM activity", r.next().Gpus[0].Leaves[0].SmActive, 0.5)
}

func TestMIGTurnedOnAndOff(t *testing.T) {
	r := newRig(t, "gpus 1; activity 0 0.5", nil)
	r.next()
	r.watch(3)
	r.sim.Do("mig 0 1g.10gb")
	g := r.next().Gpus[0]
	diff(t, "on", []life{{"gpu", "", 7, 0, 4000}, {"gi7ci0", "1g.10gb", 1, 4000, slotMS}}, lives(g))
	r.watch(6)
	r.sim.Do("mig 0 off; activity 0 0.5")
	g = r.next().Gpus[0]
	diff(t, "off", []life{{"gi7ci0", "1g.10gb", 1, 0, 7000}, {"gpu", "", 7, 7000, slotMS}}, lives(g))
	if l := leafOf(t, g, "gpu"); l.GpuUtil == nil {
		t.Errorf("the whole GPU has no utilisation: %v", l)
	}
}

func TestMIGWithoutInstances(t *testing.T) {
	r := newRig(t, "gpus 1", nil)
	r.next()
	r.sim.Do("mig 0 on")
	r.next()
	if g := r.next().Gpus[0]; !g.Mig || len(g.Leaves) > 0 {
		t.Errorf("GPU is %v, want MIG without leaves", g)
	}
}

func TestMIGModeIsNotTold(t *testing.T) {
	r := newRig(t, "gpus 1; mig 0 1g.10gb*7; blank 0 67 notsupported", nil)
	r.src.Close()
	r.start()
	if g := r.next().Gpus[0]; !g.Mig || len(g.Leaves) != 7 {
		t.Errorf("GPU is %v, want MIG with 7 leaves", g)
	}
}

func TestInstancesCanNotBeListed(t *testing.T) {
	r := newRig(t, "gpus 2; mig 1 1g.10gb*7; fail dcgmGetGpuInstanceHierarchy -29", nil)
	b, err := r.try()
	wantError(t, err, "GPU 1", "MIG is on", "can't be listed")
	if len(b.Gpus) != 1 || b.Gpus[0].Index != 0 || b.Enumeration != wire.Enumeration_ENUMERATION_PARTIAL {
		t.Errorf("batch is %v, want GPU 0 alone and partial", b)
	}
	r.sim.Do("fail dcgmGetGpuInstanceHierarchy off")
	if b := r.next(); len(b.Gpus) != 2 || len(b.Gpus[1].Leaves) != 7 {
		t.Errorf("batch is %v, want both GPUs", b)
	}
}
