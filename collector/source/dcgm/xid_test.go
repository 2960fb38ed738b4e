package dcgm

import (
	"testing"

	"github.com/gputally/gputally/internal/wire"
)

func TestXIDsAtThreeLevels(t *testing.T) {
	r := newRig(t, "gpus 3; mig all 3g.40gb/1c+2c 4g.40gb", nil)
	r.next()
	r.watch(3)
	r.sim.Do("xid 0 79; xid 1/2 64; xid 2/2/1 95; xid 2/1 13")
	b := r.next()
	diff(t, "events", []string{"79", "gi2 64", "gi2ci1 95", "gi1 13"}, events(b, "xid"))
	for _, e := range b.Events {
		if e.AtMs != 3000 {
			t.Errorf("XID %d is at %d ms, want 3000", e.Code, e.AtMs)
		}
	}
	type flags struct {
		Board  bool
		Leaves map[string]bool
	}
	of := func(g *wire.Gpu) flags {
		f := flags{g.Unhealthy, map[string]bool{}}
		for _, l := range g.Leaves {
			f.Leaves[l.Id] = l.Unhealthy
		}
		return f
	}
	leaves := func(bad ...string) map[string]bool {
		m := map[string]bool{"gi2ci0": false, "gi2ci1": false, "gi1ci0": false}
		for _, id := range bad {
			m[id] = true
		}
		return m
	}
	want := []flags{{true, leaves()}, {false, leaves("gi2ci0", "gi2ci1")}, {false, leaves("gi2ci1")}}
	diff(t, "flags", want, []flags{of(b.Gpus[0]), of(b.Gpus[1]), of(b.Gpus[2])})

	r.sim.Do("reset 1")
	b = r.next()
	want[1].Leaves = leaves()
	diff(t, "flags after a reset of GPU 1", want, []flags{of(b.Gpus[0]), of(b.Gpus[1]), of(b.Gpus[2])})
	diff(t, "XIDs are told once", []string(nil), events(b, "xid"))
	diff(t, "reset", []string{"0"}, events(b, "reset"))
}

func TestOldXIDsAreNoNews(t *testing.T) {
	r := newRig(t, "gpus 1", nil)
	r.src.Close()
	r.sim.Do("xid 0 79")
	r.pass(slotMS * 1e6)
	r.start()
	r.src.Watch()
	r.slot = r.slot.Next()
	if b := r.next(); b.Gpus[0].Unhealthy || len(b.Events) > 0 {
		t.Errorf("an XID from before the watch counts: %v", b)
	}
	r.sim.Do("xid 0 64")
	b := r.next()
	diff(t, "news", []string{"64"}, events(b, "xid"))
}

func TestEqualXIDsInARow(t *testing.T) {
	r := newRig(t, "gpus 1; mig 0 7g.80gb", nil)
	r.next()
	for range 3 {
		r.watch(1)
		r.sim.Do("xid 0/0/0 31")
	}
	diff(t, "events", []string{"gi0ci0 31", "gi0ci0 31", "gi0ci0 31"}, events(r.next(), "xid"))
	diff(t, "events of the next slot", []string(nil), events(r.next(), "xid"))
}

// The entity id of the instance that had the XID means another one now.
func TestXIDBeforeAReconfigurationIsNotTheNewInstances(t *testing.T) {
	r := newRig(t, "gpus 1; mig 0 7g.80gb", nil)
	r.next()
	r.watch(2)
	r.sim.Do("xid 0/0/0 95; xid 0 119; mig 0 off; mig 0 1g.10gb*7")
	diff(t, "events", []string{"119"}, events(r.next(), "xid"))
	b := r.next()
	diff(t, "events of the next slot", []string(nil), events(b, "xid"))
	for _, l := range b.Gpus[0].Leaves {
		if l.Unhealthy {
			t.Errorf("leaf %s is flagged for an XID of an instance before it", l.Id)
		}
	}
}

func TestXIDOfAGPUThatFallsOffTheBus(t *testing.T) {
	r := newRig(t, "gpus 2", nil)
	r.next()
	r.watch(2)
	r.sim.Do("xid 1 79; lost 1")
	b := r.next()
	diff(t, "events", []string{"79"}, events(b, "xid"))
	if !b.Gpus[1].Lost {
		t.Errorf("GPU 1 is %v, want lost", b.Gpus[1])
	}
	r.sim.Do("back 1")
	if b = r.next(); b.Gpus[1].Lost || !b.Gpus[1].Unhealthy {
		t.Errorf("GPU 1 is %v, want back and flagged", b.Gpus[1])
	}
}
