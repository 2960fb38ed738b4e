package dcgm

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gputally/gputally/collector/source/local"
	"github.com/gputally/gputally/internal/wire"
)

// Whatever happens, each batch covers each of its GPUs exactly (rig.sound), and
// the source finds back.
func TestWhateverHappens(t *testing.T) {
	slots := 300
	if testing.Short() {
		slots = 60
	}
	lines := []string{
		"mig 0 off; mig 0 1g.10gb*7", "mig 0 off; mig 0 3g.40gb/1c+2c 4g.40gb", "mig 0 off", "mig 1 off; mig 1 7g.80gb", "mig 1 on", "mig 1 off",
		"lost 2", "back 2", "lost 0", "back 0", "reset 1", "driver reload", "hostengine restart", "hostengine down", "hostengine up",
		"xid 0 79", "xid 1 31", "xid 2 64", "rowremap 2 failed", "rowremap 2 ok", "stale 1", "fresh 1",
		"fail dcgmGetGpuInstanceHierarchy -29 3", "fail dcgmEntitiesGetLatestValues -3 1", "fail dcgmGetValuesSince_v2 -11 1", "fail dcgmGetAllDevices -67 2",
		"fail dcgmGroupAddEntity -1 1", "fail dcgmFieldGroupCreate -24 1", "fail dcgmWatchFields -3 2", "fail-fields 1001-1016 -37", "fail-fields 1001-1016 off",
		"blank 1 156 absent", "blank 1 156 off", "blank 2 54 absent", "blank 2 54 off", "blank 0 67 notsupported", "blank 0 67 off",
		"blank 1 1002 garbage 140737488355330", "blank 1 1002 off",
	}
	r := newRig(t, "gpus 3", nil)
	random := rand.New(rand.NewPCG(7, 11)) //nolint:gosec // the same course each time
	batches := 0
	for range slots {
		for range random.IntN(4) {
			r.pass(time.Duration(random.IntN(2500)) * time.Millisecond)
			r.src.Watch()
			r.sim.Do(lines[random.IntN(len(lines))])
		}
		if b, _ := r.try(); b != nil {
			batches++
		}
	}
	if batches < slots/3 {
		t.Errorf("%d batches in %d slots", batches, slots)
	}
	r.sim.Do("hostengine up; back 0; back 2; fresh 1; rowremap 2 ok; fail-fields 1001-1016 off; blank 1 156 off; blank 2 54 off; blank 0 67 off; blank 1 1002 off")
	for _, s := range symbols {
		r.sim.Do("fail " + s + " off")
	}
	r.sim.Do("mig all off; activity all 0.5")
	for range 9 { // profiling is tried again within a minute
		_, _ = r.try()
	}
	r.sim.Do("reset all") // of counters that have been growing long enough to show it
	r.next()
	b := r.next()
	for i, g := range b.Gpus {
		near(t, "SM activity", g.Leaves[0].SmActive, 0.5)
		if g.Index != uint32(i) || g.Lost || g.Unhealthy || g.EnergyMj == nil || g.EnergyReset || len(g.Leaves) != 1 {
			t.Errorf("in the end GPU %d is %v", i, g)
		}
	}
	if len(b.Gpus) != 3 || b.Enumeration != wire.Enumeration_ENUMERATION_COMPLETE {
		t.Errorf("in the end there are %d GPUs, %v", len(b.Gpus), b.Enumeration)
	}
}

func TestResetIsToldOnceToEachBoard(t *testing.T) {
	var p pending
	p.resetAll()
	told := func(complete bool, uuids ...string) map[string]bool {
		boards := make([]local.GPU, len(uuids))
		for i, u := range uuids {
			boards[i].UUID = u
		}
		p.deliver(&local.Reading{GPUs: boards, Complete: complete})
		out := map[string]bool{}
		for _, b := range boards {
			out[b.UUID] = b.Reset
		}
		return out
	}
	diff(t, "no board answers", map[string]bool{}, told(false))
	diff(t, "one answers", map[string]bool{"a": true}, told(false, "a"))
	diff(t, "both answer", map[string]bool{"a": false, "b": true}, told(true, "a", "b"))
	diff(t, "later", map[string]bool{"a": false, "b": false}, told(true, "a", "b"))
}

func TestOtherModels(t *testing.T) {
	for _, c := range []struct {
		lines   string
		slices  uint32
		leaves  []life
		profile bool
	}{
		{`gpus 1 model "NVIDIA A30"; mig 0 1g.6gb*2 2g.12gb`, 4, []life{{"gi5ci0", "1g.6gb", 1, 0, slotMS}, {"gi6ci0", "1g.6gb", 1, 0, slotMS}, {"gi1ci0", "2g.12gb", 2, 0, slotMS}}, true},
		{`gpus 1 model "Tesla T4"`, 1, []life{{"gpu", "", 1, 0, slotMS}}, true},
		{`gpus 1 model "NVIDIA GeForce RTX 3090"`, 1, []life{{"gpu", "", 1, 0, slotMS}}, false},
	} {
		t.Run(c.lines, func(t *testing.T) {
			r := newRig(t, c.lines, nil)
			r.next()
			g := r.next().Gpus[0]
			if g.Slices != c.slices || (g.Leaves[0].SmActive != nil) != c.profile {
				t.Errorf("GPU is %v, want %d slices, activity %v", g, c.slices, c.profile)
			}
			diff(t, "leaves", c.leaves, lives(g))
		})
	}
}

func TestNodeWithoutGPUs(t *testing.T) {
	r := newRig(t, "", nil)
	b, err := r.try()
	wantError(t, err, "the node has none, or its driver isn't loaded")
	if b == nil || b.Enumeration != wire.Enumeration_ENUMERATION_PARTIAL {
		t.Errorf("batch is %v, want an empty partial one", b)
	}
	r.sim.Do("gpus 1; xid 0 79")
	if b := r.next(); len(b.Gpus) != 1 || len(events(b, "reset")) > 0 {
		t.Errorf("batch is %v, want a GPU and no reset", b)
	}
}
