package dcgm

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	clientmodel "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/local"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/gpusim"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

const slotMS = 10_000

// rig is a source over simulated GPUs, in the model's virtual time.
type rig struct {
	t    *testing.T
	sim  *gpusim.Sim
	clk  *clock.Fake
	reg  *prometheus.Registry
	log  *bytes.Buffer
	src  *Source
	slot source.Slot
	cfg  Config
}

// newRig has simulated GPUs by configuration lines. The first slot begins now, and
// so does DCGM's sampling, which therefore ends with each slot.
func newRig(t *testing.T, lines string, change func(*Config)) *rig {
	t.Helper()
	sim := gpusim.Open(t)
	sim.Do(lines)
	r := &rig{t: t, sim: sim, clk: clock.NewFake(sim.Now()), slot: source.At(sim.Now(), slotMS*time.Millisecond), cfg: DefaultConfig()}
	r.cfg.Library = sim.DCGM()
	if change != nil {
		change(&r.cfg)
	}
	r.start()
	r.src.Watch()
	t.Cleanup(func() { r.src.Close() })
	return r
}

// start makes a source without a memory.
func (r *rig) start() {
	r.t.Helper()
	r.reg, r.log = prometheus.NewRegistry(), &bytes.Buffer{}
	log := slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	builder, err := local.New(local.DefaultConfig(), local.Deps{Cluster: "c", Node: "n", Clock: r.clk, Log: log, Registry: r.reg})
	if err != nil {
		r.t.Fatal(err)
	}
	if r.src, err = New(r.cfg, builder); err != nil {
		r.t.Fatal(err)
	}
}

// pass lets time go by without the source.
func (r *rig) pass(d time.Duration) {
	r.sim.Advance(d)
	r.clk.Advance(d)
}

// watch passes whole seconds as the slot loop does, with a look after each.
func (r *rig) watch(seconds int) {
	for range seconds {
		r.pass(time.Second)
		r.src.Watch()
	}
}

// try goes on to the slot's end and reads it.
func (r *rig) try() (*wire.Batch, error) {
	r.t.Helper()
	for r.slot.End().Sub(r.clk.Now()) > time.Second {
		r.watch(1)
	}
	r.pass(r.slot.End().Sub(r.clk.Now()))
	return r.readNow()
}

func (r *rig) readNow() (*wire.Batch, error) {
	r.t.Helper()
	batches, err := r.src.Read(r.t.Context(), r.slot)
	r.src.Commit()
	slot := r.slot
	r.slot = r.slot.Next()
	if len(batches) > 1 {
		r.t.Fatalf("got %d batches, want one at most", len(batches))
	}
	if len(batches) == 0 {
		return nil, err
	}
	r.sound(batches[0], slot)
	return batches[0], err
}

// next is try where nothing may fail.
func (r *rig) next() *wire.Batch {
	r.t.Helper()
	b, err := r.try()
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// sound holds for every batch: it is valid, and settled it covers each GPU
// exactly, whether nobody or everybody holds its leaves.
func (r *rig) sound(b *wire.Batch, slot source.Slot) {
	r.t.Helper()
	for _, held := range []bool{false, true} {
		c := proto.CloneOf(b)
		c.Collector, c.Attribution = "test", wire.Attribution_ATTRIBUTION_OK
		for _, g := range c.Gpus {
			for _, l := range g.Leaves {
				if held {
					g.Holds = append(g.Holds, &wire.Hold{Leaf: l.Id, FromMs: l.FromMs, ToMs: l.ToMs, Owner: &wire.Owner{Job: "1"}})
				}
			}
		}
		if err := wire.Validate(c); err != nil {
			r.t.Errorf("slot %s: batch is not valid: %v", slot.Start, err)
			return
		}
		for _, s := range meter.Classify(c, meter.NewIdentities()) {
			var total int64
			for _, row := range s.Rows {
				total += row.SliceMS
			}
			want := int64(s.Slices) * wire.ObservedMS(b)
			// A hold goes on over a gap within the slot (R10).
			if held && total > want && total <= int64(s.Slices)*b.SlotMs {
				want = total
			}
			if total != want || (held && s.Finding != "") {
				r.t.Errorf("slot %s, GPU %s, held %v: buckets sum to %d slice-ms, want %d; finding %q", slot.Start, s.UUID, held, total, want, s.Finding)
			}
		}
	}
}

// counter is the sum of a metric's series that have a label's value; any: all.
func (r *rig) counter(name, value string) float64 {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	total, found := 0.0, false
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name && (value == "" || len(m.Label) > 0 && m.Label[0].GetValue() == value) {
				total, found = total+m.GetCounter().GetValue()+m.GetGauge().GetValue(), true
			}
		}
	}
	if !found {
		r.t.Fatalf("no metric %s{%s}", name, value)
	}
	return total
}

func counterValue(t *testing.T, c prometheus.Metric) float64 {
	t.Helper()
	var m clientmodel.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

func (r *rig) wantCounter(name, value string, want float64) {
	r.t.Helper()
	if got := r.counter(name, value); got != want {
		r.t.Errorf("%s{%s} is %v, want %v", name, value, got, want)
	}
}

// wantError wants all parts in an error's text.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q lacks %q", err, p)
		}
	}
}

// near compares with the model's truth.
func near(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s is absent, want %v", what, want)
	} else if d := *got - want; d > 1e-6 || d < -1e-6 {
		t.Errorf("%s is %v, want %v", what, *got, want)
	}
}

// life is a leaf in a slot.
type life struct {
	ID, Profile string
	Slices      uint32
	From, To    int64
}

func lives(g *wire.Gpu) []life {
	var out []life
	for _, l := range g.Leaves {
		from, to := wire.Span(l.FromMs, l.ToMs, slotMS)
		out = append(out, life{l.Id, l.Profile, l.Slices, from, to})
	}
	return out
}

func diff(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// events of a kind, as "leaf code" at their time in the slot.
func events(b *wire.Batch, kind string) []string {
	var out []string
	for _, e := range b.Events {
		if e.Kind == kind {
			out = append(out, strings.TrimSpace(e.Leaf+" "+slog.Int64Value(e.Code).String()))
		}
	}
	return out
}

// metric is a value among a GPU's or leaf's metrics.
func metric(fields []uint32, values []float64, id uint32) (float64, bool) {
	for i, f := range fields {
		if f == id {
			return values[i], true
		}
	}
	return 0, false
}
