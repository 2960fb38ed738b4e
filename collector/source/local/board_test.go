package local

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/internal/wire"
)

func TestWholeBoard(t *testing.T) {
	r := newRig(t, nil)
	b := plain(Value{field.SMActive, 0.75}, Value{field.GREngineActive, 1.005}, Value{field.GPUUtil, 99}, Value{field.FBUsed, 500},
		Value{field.PowerWatts, 420}, Value{1004, 0.5})
	b.Index = 3
	want := &wire.Batch{
		Format: 1, Cluster: "c", Node: "n", SlotStartMs: start.UnixMilli(), SlotMs: slotMS,
		Attribution: wire.Attribution_ATTRIBUTION_FAILED, Enumeration: wire.Enumeration_ENUMERATION_COMPLETE, Origin: wire.Origin_ORIGIN_LIVE,
		Gpus: []*wire.Gpu{{
			Uuid: "GPU-a", Model: h100, Slices: 7, Index: 3, IdleWatts: proto.Float64(80), PowerWatts: proto.Float64(420),
			MetricFields: []uint32{field.FBUsed, 1004}, MetricValues: []float64{500, 0.5},
			Leaves: []*wire.Leaf{{Id: "gpu", Slices: 7, SmActive: proto.Float64(0.75), GrEngineActive: proto.Float64(1), GpuUtil: proto.Float64(99)}},
		}},
	}
	if diff := cmp.Diff(want, r.read(b), protocmp.Transform()); diff != "" {
		t.Errorf("batch differs (-want +got):\n%s", diff)
	}
}

func TestAbsentValuesAreCounted(t *testing.T) {
	r := newRig(t, nil)
	g := r.gpu(plain(
		Value{field.GPUUtil, 4294967295}, Value{field.SMActive, 140737488355330}, Value{field.GREngineActive, math.NaN()},
		Value{1004, -0.1}, Value{1005, math.Inf(1)}, Value{9999, 9223372036854775792}, Value{9998, 7}, Value{field.PowerWatts, 0},
	))
	if l := g.Leaves[0]; l.GpuUtil != nil || l.SmActive != nil || l.GrEngineActive != nil || g.PowerWatts != nil {
		t.Errorf("impossible values were believed: %v, power %v", l, g.PowerWatts)
	}
	if diff := cmp.Diff([]uint32{9998}, g.MetricFields); diff != "" { // a site's own field
		t.Errorf("metrics differ (-want +got):\n%s", diff)
	}
	r.absent(field.AbsentRange, 3) // GPU_UTIL, 1004, 0 W
	r.absent(field.AbsentBlank, 2) // SM, 9999
	r.absent(field.AbsentNaN, 1)   // 1005; what wasn't read at all isn't counted
}

func TestLostBoardIsListedAsItWas(t *testing.T) {
	r := newRig(t, nil)
	r.gpu(mig(three, four))
	gone := GPU{UUID: "GPU-a", Lost: true}
	r.look(2*time.Second, gone)
	b := r.read(gone)
	want := &wire.Gpu{Uuid: "GPU-a", Model: h100, Slices: 7, Mig: true, IdleWatts: proto.Float64(80), Lost: true}
	if diff := cmp.Diff(want, b.Gpus[0], protocmp.Transform()); diff != "" {
		t.Errorf("lost GPU differs (-want +got):\n%s", diff)
	}
	if b.Enumeration != wire.Enumeration_ENUMERATION_COMPLETE {
		t.Errorf("enumeration is %v, want complete: a lost GPU is listed", b.Enumeration)
	}
	r.wantEvents(b, []*wire.Event{{AtMs: 9999, Gpu: "GPU-a", Kind: "lost"}})
	r.wantEvents(r.read(gone), nil) // told once

	// Back: the instances are the ones that were there.
	r.look(4*time.Second, mig(three))
	b = r.read(mig(three))
	r.wantLives(b.Gpus[0], life{"gi1ci0", "3g.40gb", 3, 0, slotMS}, life{"gi2ci0", "4g.40gb", 4, 0, 4000})
	if b.Gpus[0].Lost {
		t.Error("the GPU is back, but still listed as lost")
	}
	r.wantEvents(r.read(gone), []*wire.Event{{AtMs: 9999, Gpu: "GPU-a", Kind: "lost"}}) // and again
}

// TestLostBoardNeverSeen: capacity is what is known of it, never a guess, which
// would bind the hour (R2).
func TestLostBoardNeverSeen(t *testing.T) {
	for name, c := range map[string]struct {
		board GPU
		want  uint32
	}{
		"a model of the table":   {GPU{UUID: "GPU-a", Model: h100, Lost: true}, 7},
		"slices from the device": {GPU{UUID: "GPU-a", Model: "NVIDIA Z1", Slices: 4, Lost: true}, 4},
		"a model unknown":        {GPU{UUID: "GPU-a", Model: "NVIDIA Z1", Lost: true}, 0},
		"nothing":                {GPU{UUID: "GPU-a", Lost: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newRig(t, nil).gpu(c.board).Slices; got != c.want {
				t.Errorf("slices are %d, want %d", got, c.want)
			}
		})
	}
}

func TestUnknownModelWithoutMIGIsOneSlice(t *testing.T) {
	b := plain()
	b.Model, b.Slices = "NVIDIA Z1", 0
	if g := newRig(t, nil).gpu(b); g.Slices != 1 || g.IdleWatts != nil {
		t.Errorf("GPU has %d slices and idle watts %v, want 1 and none", g.Slices, g.IdleWatts)
	}
}

func TestConfiguredModel(t *testing.T) {
	b := mig(Key{GI: 1, CI: 0, Profile: "2g.9gb"})
	b.Model, b.Slices = "NVIDIA Z1", 0
	g := newRig(t, func(c *Config, _ *Deps) {
		c.Models = source.Models{{Name: "NVIDIA Z1", Slices: 5, IdleWatts: 33, Profiles: map[string]int{"2g.9gb": 2}}}
	}).gpu(b)
	if g.Slices != 5 || g.GetIdleWatts() != 33 || g.Leaves[0].Slices != 2 {
		t.Errorf("GPU has %d slices, %v W idle, leaf of %d; want 5, 33, 2", g.Slices, g.GetIdleWatts(), g.Leaves[0].Slices)
	}
}

func TestPartialEnumeration(t *testing.T) {
	r := newRig(t, nil)
	b, err := r.end(Reading{GPUs: []GPU{plain()}})
	if err != nil || b.Enumeration != wire.Enumeration_ENUMERATION_PARTIAL {
		t.Errorf("enumeration is %v (%v), want partial", b.Enumeration, err)
	}
	b, err = r.end(Reading{Complete: true})
	if err != nil || b.Enumeration != wire.Enumeration_ENUMERATION_COMPLETE || len(b.Gpus) != 0 {
		t.Errorf("a node without GPUs is %v, %v (%v); want none, complete", b.Gpus, b.Enumeration, err)
	}
}

// TestForgetsBoardsThatAreGone: a GPU that is taken out and put back later is
// seen for the first time again, and nothing is kept for it meanwhile.
func TestForgetsBoardsThatAreGone(t *testing.T) {
	r := newRig(t, nil)
	r.gpu(mig(three))
	r.read()
	if len(r.b.layouts) != 0 {
		t.Errorf("%d layouts are kept for no board", len(r.b.layouts))
	}
	r.look(4*time.Second, mig(four))
	r.wantLives(r.gpu(mig(four)), life{"gi2ci0", "4g.40gb", 4, 0, slotMS})
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("the default is wrong: %v", err)
	}
	c := Config{FatalXIDs: []int64{79, 0, -3}, Models: source.Models{{Name: "", Slices: 1}}}
	err := c.Validate()
	for _, want := range []string{"fatal_xids[1] 0: must be positive", "fatal_xids[2] -3", "models[0].name: is empty"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate says %v, want %q", err, want)
		}
	}
	for _, d := range []Deps{{Node: "n"}, {Cluster: "c"}} {
		d.Registry = prometheus.NewRegistry()
		if _, err := New(DefaultConfig(), d); err == nil || !strings.Contains(err.Error(), "both are needed") {
			t.Errorf("New with cluster %q, node %q says %v, want that both are needed", d.Cluster, d.Node, err)
		}
	}
}
