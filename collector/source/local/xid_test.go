package local

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/collector/source/gpustate"
	"github.com/gputally/gputally/internal/wire"
)

func withState(t *testing.T) func(*Config, *Deps) {
	return func(_ *Config, d *Deps) { d.StateFile = filepath.Join(t.TempDir(), "device.json") }
}

func (r *rig) wantEvents(b *wire.Batch, want []*wire.Event) {
	r.t.Helper()
	if diff := cmp.Diff(want, b.Events, protocmp.Transform()); diff != "" {
		r.t.Errorf("events differ (-want +got):\n%s", diff)
	}
}

// two is a GPU with two compute instances in one GPU instance, and another
// GPU instance without any.
func two(values ...Value) GPU {
	b := mig(
		Key{GI: 1, CI: 0, Profile: "1c.3g.40gb", Slices: 1}, Key{GI: 1, CI: 1, Profile: "2c.3g.40gb", Slices: 2},
		Key{GI: 2, CI: -1, Profile: "3g.40gb", Slices: 3},
	)
	b.Values = values
	return b
}

// flags lists what is unhealthy: "gpu" and the ids of leaves.
func flags(g *wire.Gpu) (out []string) {
	if g.Unhealthy {
		out = append(out, "gpu")
	}
	for _, l := range g.Leaves {
		if l.Unhealthy {
			out = append(out, l.Id)
		}
	}
	return out
}

func (r *rig) wantFlags(g *wire.Gpu, want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, flags(g)); diff != "" {
		r.t.Errorf("flags differ (-want +got):\n%s", diff)
	}
}

func TestFatalXIDFlagsWhereItHappened(t *testing.T) {
	for name, c := range map[string]struct {
		part gpustate.Part
		leaf string
		want []string
	}{
		"the GPU":                          {gpustate.Whole, "", []string{"gpu"}},
		"a GPU instance without computes":  {gpustate.Instance(2), "gi2", []string{"gi2"}},
		"a GPU instance, so its computes":  {gpustate.Instance(1), "gi1", []string{"gi1ci0", "gi1ci1"}},
		"a compute instance":               {gpustate.ComputeInstance(1, 1), "gi1ci1", []string{"gi1ci1"}},
		"an instance that isn't there now": {gpustate.Instance(5), "gi5", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withState(t))
			r.wantFlags(r.gpu(two(energy(5e6))))
			xid := XID{At: r.slot.Start.Add(3 * time.Second), UUID: "GPU-a", Part: c.part, Code: 95}
			b, err := r.end(Reading{Complete: true, GPUs: []GPU{two(energy(6e6))}, XIDs: []XID{xid}})
			if err != nil {
				t.Fatal(err)
			}
			r.wantEvents(b, []*wire.Event{{AtMs: 3000, Gpu: "GPU-a", Leaf: c.leaf, Kind: "xid", Code: 95}})
			r.wantFlags(b.Gpus[0], c.want...)
			r.count("XIDs", r.b.metrics.xids.WithLabelValues("95"), 1)
			// It stays, over a restart too, until the counter shows a reset.
			r.wantFlags(r.gpu(two(energy(7e6))), c.want...)
			r.restart()
			r.wantFlags(r.gpu(two(energy(8e6))), c.want...)
			r.wantFlags(r.gpu(two(energy(1e6))))
			r.restart()
			r.wantFlags(r.gpu(two(energy(2e6))))
		})
	}
}

func TestUsersOwnXIDFlagsNothing(t *testing.T) {
	r := newRig(t, nil)
	b, err := r.end(Reading{Complete: true, GPUs: []GPU{two()}, XIDs: []XID{
		{At: r.slot.Start.Add(-time.Second), UUID: "GPU-a", Part: gpustate.ComputeInstance(1, 0), Code: 13},
		{At: r.slot.End().Add(time.Second), UUID: "GPU-a", Part: gpustate.Whole, Code: 31},
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.wantFlags(b.Gpus[0])
	// Told in this slot, so within it.
	r.wantEvents(b, []*wire.Event{
		{AtMs: 0, Gpu: "GPU-a", Leaf: "gi1ci0", Kind: "xid", Code: 13},
		{AtMs: 9999, Gpu: "GPU-a", Kind: "xid", Code: 31},
	})
}

func TestConfiguredFatalXIDs(t *testing.T) {
	r := newRig(t, func(c *Config, _ *Deps) { c.FatalXIDs = []int64{48} })
	for code, want := range map[int64][]string{48: {"gpu"}, 79: nil} {
		r.restart()
		b, err := r.end(Reading{Complete: true, GPUs: []GPU{plain()}, XIDs: []XID{{At: r.slot.Start, UUID: "GPU-a", Part: gpustate.Whole, Code: code}}})
		if err != nil {
			t.Fatal(err)
		}
		r.wantFlags(b.Gpus[0], want...)
	}
}

// TestFlagsEndWithTheMachinesBoot: and only with another one's that is known.
func TestFlagsEndWithTheMachinesBoot(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string
		want          []string
	}{
		"the same boot":       {"boot-1", "boot-1", []string{"gpu"}},
		"another boot":        {"boot-1", "boot-2", nil},
		"not known any more":  {"boot-1", "", []string{"gpu"}},
		"not known before":    {"", "boot-2", []string{"gpu"}},
		"never known, either": {"", "", []string{"gpu"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withState(t))
			r.deps.MachineBoot = c.before
			r.restart()
			fatal := XID{At: r.slot.Start, UUID: "GPU-a", Part: gpustate.Whole, Code: 79}
			if _, err := r.end(Reading{Complete: true, GPUs: []GPU{plain()}, XIDs: []XID{fatal}}); err != nil {
				t.Fatal(err)
			}
			r.deps.MachineBoot = c.after
			r.restart()
			r.wantFlags(r.gpu(plain()), c.want...)
		})
	}
}

func TestTornStateIsToldAndLeft(t *testing.T) {
	r := newRig(t, withState(t))
	r.gpu(plain(energy(1e6)))
	if err := os.WriteFile(r.deps.StateFile, []byte(`{"kind":"gputally dev`), 0o600); err != nil {
		t.Fatal(err)
	}
	r.restart()
	if got := r.gpu(plain(energy(2e6))).EnergyMj; got != nil {
		t.Errorf("energy moved by %d mJ against a torn memory, want none", *got)
	}
	r.count("state errors", r.b.metrics.stateFails, 1)
	r.restart() // and it was written anew
	if got := r.gpu(plain(energy(3e6))).GetEnergyMj(); got != 1_000_000 {
		t.Errorf("energy moved by %d mJ, want 1000000", got)
	}
}

func TestStateThatCantBeWritten(t *testing.T) {
	r := newRig(t, func(_ *Config, d *Deps) { d.StateFile = filepath.Join(t.TempDir(), "missing", "device.json") })
	r.gpu(plain())
	r.gpu(plain())
	r.count("state errors", r.b.metrics.stateFails, 2)
}

// TestRowRemapFailure is a level of the device's own: it goes when the device
// says so, and a blank is no failure.
func TestRowRemapFailure(t *testing.T) {
	r := newRig(t, nil)
	remap := func(v float64) GPU { return plain(Value{ID: field.RowRemapFailure, V: v}) }
	r.wantFlags(r.gpu(remap(0)))
	r.wantFlags(r.gpu(remap(1)), "gpu")
	r.wantFlags(r.gpu(remap(0)))
	r.wantFlags(r.gpu(remap(9223372036854775794))) // not supported
	r.absent(field.AbsentBlank, 1)
	r.wantFlags(r.gpu(remap(2)))
	r.absent(field.AbsentRange, 1)
}
