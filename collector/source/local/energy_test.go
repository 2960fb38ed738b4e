package local

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/internal/wire"
)

// moved is what a GPU tells of its energy; -1 where it tells nothing.
type moved struct {
	MJ, SpanMS int64
	Reset      bool
	Watts      float64
}

func energyOf(g *wire.Gpu) moved {
	m := moved{MJ: -1, SpanMS: -1, Reset: g.EnergyReset, Watts: -1}
	if g.EnergyMj != nil {
		m.MJ, m.SpanMS = *g.EnergyMj, *g.EnergySpanMs
	}
	if g.PowerWatts != nil {
		m.Watts = *g.PowerWatts
	}
	return m
}

func (r *rig) wantEnergy(g *wire.Gpu, want moved) {
	r.t.Helper()
	if diff := cmp.Diff(want, energyOf(g)); diff != "" {
		r.t.Errorf("energy differs (-want +got):\n%s", diff)
	}
}

func TestEnergyIsTheCountersMovement(t *testing.T) {
	r := newRig(t, nil)
	power := Value{ID: field.PowerWatts, V: 333}
	// A counter is worth its movement only; until then power is what the driver says.
	r.wantEnergy(r.gpu(plain(energy(5e9), power)), moved{-1, -1, false, 333})
	// 2 MJ in 10 s are 200 W, whatever the driver's last mean was.
	r.wantEnergy(r.gpu(plain(energy(5e9+2e6), power)), moved{2_000_000, 10_000, false, 200})
	// A counter that stands says nothing, and what comes then covers both slots.
	r.wantEnergy(r.gpu(plain(energy(5e9+2e6), power)), moved{-1, -1, false, 333})
	r.wantEnergy(r.gpu(plain(energy(5e9+5e6), power)), moved{3_000_000, 20_000, false, 333})
	// No counter, no power: nothing.
	r.wantEnergy(r.gpu(plain()), moved{-1, -1, false, -1})
	r.count("resets", r.b.metrics.resets, 0)
}

func TestEnergyCounterReadAtItsOwnTime(t *testing.T) {
	r := newRig(t, nil)
	b := plain(energy(1e6))
	b.EnergyAt = start.Add(9 * time.Second)
	r.gpu(b)
	b = plain(energy(3e6))
	b.EnergyAt = start.Add(17 * time.Second)
	r.wantEnergy(r.gpu(b), moved{2_000_000, 8000, false, 250})
}

func TestEnergyCounterThatWentDownWasReset(t *testing.T) {
	r := newRig(t, nil)
	r.gpu(plain(energy(5e9)))
	b := r.read(plain(energy(1e6)))
	// What it has counted since is certain, the span isn't a slope's.
	r.wantEnergy(b.Gpus[0], moved{1_000_000, 10_000, true, -1})
	want := []*wire.Event{{AtMs: 9999, Gpu: "GPU-a", Kind: "reset"}}
	r.wantEvents(b, want)
	r.count("resets", r.b.metrics.resets, 1)
	r.wantEnergy(r.gpu(plain(energy(2e6))), moved{1_000_000, 10_000, false, 100})
}

// TestResetKnownOtherwise: a driver that was reloaded may have counted past the
// old value by now, so the movement isn't one.
func TestResetKnownOtherwise(t *testing.T) {
	r := newRig(t, nil)
	r.gpu(plain(energy(1e6)))
	board := plain(energy(3e6))
	board.Reset = true
	b := r.read(board)
	r.wantEnergy(b.Gpus[0], moved{2_000_000, 10_000, true, -1})
	r.wantEvents(b, []*wire.Event{{AtMs: 9999, Gpu: "GPU-a", Kind: "reset"}})
}

func TestEnergyOverRestart(t *testing.T) {
	r := newRig(t, withState(t))
	r.gpu(plain(energy(1e9)))
	r.restart()
	r.wantEnergy(r.gpu(plain(energy(1e9+1e6))), moved{1_000_000, 10_000, false, 100})

	r.deps.Cluster = "another"
	r.restart()
	r.wantEnergy(r.gpu(plain(energy(1e9+2e6))), moved{-1, -1, false, -1})
	r.count("state errors", r.b.metrics.stateFails, 1)
}

func TestEnergyImpossible(t *testing.T) {
	r := newRig(t, nil)
	r.gpu(plain(energy(1e6)))
	r.wantEnergy(r.gpu(plain(energy(-1))), moved{-1, -1, false, -1})
	r.wantEnergy(r.gpu(plain(energy(9223372036854775792))), moved{-1, -1, false, -1})
	r.absent(field.AbsentRange, 1)
	r.absent(field.AbsentBlank, 1)
	r.count("resets", r.b.metrics.resets, 0)
	r.wantEnergy(r.gpu(plain(energy(4e6))), moved{3_000_000, 30_000, false, -1})
}

// TestIdleWattsComeFromTheModel: configured before built in.
func TestIdleWattsComeFromTheModel(t *testing.T) {
	r := newRig(t, nil)
	if got := r.gpu(plain()).GetIdleWatts(); got != 80 {
		t.Errorf("idle watts of %s are %v, want 80", h100, got)
	}
	unknown := plain()
	unknown.Model = "NVIDIA Z1"
	if got := r.gpu(unknown).IdleWatts; got != nil {
		t.Errorf("idle watts of an unknown model are %v, want none", *got)
	}
}
