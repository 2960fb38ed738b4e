package local

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

const (
	h100   = "NVIDIA H100 80GB HBM3"
	slotMS = 10_000
)

var start = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

// rig is a Builder at a node whose slots are read right at their ends.
type rig struct {
	t    *testing.T
	b    *Builder
	clk  *clock.Fake
	slot source.Slot
	cfg  Config
	deps Deps
}

func newRig(t *testing.T, change func(*Config, *Deps)) *rig {
	t.Helper()
	r := &rig{
		t: t, clk: clock.NewFake(start), cfg: DefaultConfig(),
		slot: source.Slot{Start: start, Length: slotMS * time.Millisecond},
		deps: Deps{Cluster: "c", Node: "n", Log: slog.New(slog.DiscardHandler)},
	}
	r.deps.Clock = r.clk
	if change != nil {
		change(&r.cfg, &r.deps)
	}
	r.restart()
	return r
}

// restart ends the process and begins another one.
func (r *rig) restart() {
	r.t.Helper()
	r.deps.Registry = prometheus.NewRegistry()
	b, err := New(r.cfg, r.deps)
	if err != nil {
		r.t.Fatal(err)
	}
	r.b = b
}

// look passes time within the slot and looks.
func (r *rig) look(after time.Duration, boards ...GPU) {
	r.clk.Advance(after)
	r.b.Look(r.clk.Now(), boards)
}

// end goes to the slot's end and makes its batch, which must be valid and, where
// capacity is known, cover it exactly.
func (r *rig) end(reading Reading) (*wire.Batch, error) {
	r.t.Helper()
	r.clk.Set(r.slot.End())
	reading.At = r.clk.Now()
	out, err := r.b.Batch(r.slot, reading)
	r.b.Commit()
	r.slot = r.slot.Next()
	out.Collector = "test" // identity is the slot loop's
	if err := wire.Validate(out); err != nil {
		r.t.Errorf("batch is not valid: %v", err)
	}
	r.settles(out)
	out.Collector = ""
	return out, err
}

// settles checks that the rows of each GPU sum to slices times the slot, without
// owners and with.
func (r *rig) settles(b *wire.Batch) {
	r.t.Helper()
	for _, attribution := range []wire.Attribution{wire.Attribution_ATTRIBUTION_OK, b.Attribution} {
		b.Attribution = attribution
		for i, g := range meter.Classify(b, meter.NewIdentities()) {
			sum := int64(0)
			for _, row := range g.Rows {
				sum += row.SliceMS
			}
			if want := int64(b.Gpus[i].Slices) * wire.ObservedMS(b); sum != want {
				r.t.Errorf("%s, attribution %v: buckets sum to %d slice-ms, want %d: %+v", g.UUID, attribution, sum, want, g.Rows)
			}
			if strings.Contains(g.Finding, "cover") {
				r.t.Errorf("%s: %s", g.UUID, g.Finding)
			}
		}
	}
}

// read ends a slot with all GPUs of the node, which must be believed.
func (r *rig) read(boards ...GPU) *wire.Batch {
	r.t.Helper()
	out, err := r.end(Reading{Complete: true, GPUs: boards})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// gpu is the first one of a read.
func (r *rig) gpu(boards ...GPU) *wire.Gpu {
	r.t.Helper()
	return r.read(boards...).Gpus[0]
}

// count compares a counter.
func (r *rig) count(what string, c prometheus.Counter, want float64) {
	r.t.Helper()
	if got := testutil.ToFloat64(c); got != want {
		r.t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func (r *rig) absent(reason string, want float64) {
	r.t.Helper()
	r.count("absent "+reason, r.b.metrics.absent.WithLabelValues(reason), want)
}

// plain is a whole H100.
func plain(values ...Value) GPU {
	return GPU{UUID: "GPU-a", Model: h100, Slices: 7, Values: values}
}

// mig is an H100 with instances.
func mig(keys ...Key) GPU {
	b := GPU{UUID: "GPU-a", Model: h100, Slices: 7, MIG: true}
	for _, k := range keys {
		b.Instances = append(b.Instances, Instance{Key: k})
	}
	return b
}

// inst is a GPU instance with one compute instance of its full size.
func inst(gi, slices uint32, profile, uuid string) Key {
	return Key{GI: gi, CI: 0, Profile: profile, UUID: uuid, Slices: slices}
}

func energy(mj float64) Value { return Value{ID: field.EnergyMJ, V: mj} }

// life is what a leaf tells of where and when it was.
type life struct {
	ID, Profile string
	Slices      uint32
	From, To    int64
}

func lives(g *wire.Gpu) (out []life) {
	for _, l := range g.Leaves {
		from, to := wire.Span(l.FromMs, l.ToMs, slotMS)
		out = append(out, life{l.Id, l.Profile, l.Slices, from, to})
	}
	return out
}
