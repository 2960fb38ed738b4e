package nvml

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/local"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/gpusim"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

const slotLength = 10 * time.Second

// rig is a source over simulated GPUs, whose time is its clock's.
type rig struct {
	t    testing.TB
	sim  *gpusim.Sim
	clk  *clock.Fake
	src  *Source
	reg  *prometheus.Registry
	log  safeBuffer
	slot source.Slot
}

func newRig(t testing.TB, lines string, change ...func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, sim: gpusim.Open(t)}
	r.sim.Do(lines)
	r.clk = clock.NewFake(r.sim.Now())
	r.slot = source.Slot{Start: r.sim.Now(), Length: slotLength}
	cfg := DefaultConfig()
	cfg.Library = r.sim.NVML()
	for _, c := range change {
		c(&cfg)
	}
	r.reg = prometheus.NewPedanticRegistry()
	log := slog.New(slog.NewTextHandler(&r.log, nil))
	builder, err := local.New(local.DefaultConfig(), local.Deps{Cluster: "c", Node: "n", Clock: r.clk, Log: log, Registry: r.reg})
	if err != nil {
		t.Fatal(err)
	}
	if r.src, err = New(cfg, builder); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.src.Close)
	return r
}

// pass moves the time of model and clock on.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	r.sim.Advance(d)
	r.clk.Set(r.sim.Now())
}

// try reads a slot at its end. Its batches must be valid, and cover what they list.
func (r *rig) try() (*wire.Batch, error) {
	r.t.Helper()
	r.pass(r.slot.End().Sub(r.sim.Now()))
	batches, err := r.src.Read(r.t.Context(), r.slot)
	r.src.Commit()
	r.slot = r.slot.Next()
	if len(batches) == 0 {
		return nil, err
	}
	b := batches[0]
	b.Collector = "test" // identity is the slot loop's
	if err := wire.Validate(b); err != nil {
		r.t.Errorf("batch is not valid: %v", err)
	}
	for i, g := range meter.Classify(b, meter.NewIdentities()) {
		sum := int64(0)
		for _, row := range g.Rows {
			sum += row.SliceMS
		}
		if want := int64(b.Gpus[i].Slices) * wire.ObservedMS(b); sum != want || strings.Contains(g.Finding, "cover") {
			r.t.Errorf("%s: buckets sum to %d slice-ms, want %d (%s)", g.UUID, sum, want, g.Finding)
		}
	}
	return b, err
}

// read reads a slot, all of it.
func (r *rig) read() *wire.Batch {
	r.t.Helper()
	b, err := r.try()
	if err != nil {
		r.t.Fatal(err)
	}
	if b.Enumeration != wire.Enumeration_ENUMERATION_COMPLETE {
		r.t.Errorf("enumeration is %v, want complete", b.Enumeration)
	}
	return b
}

// await waits until the source has taken n XIDs that no batch has yet.
func (r *rig) await(n int) {
	r.t.Helper()
	r.until("the XIDs arrived", func() bool { return r.queued() >= n })
}

// awaitRenewed waits until the source listens to the GPUs that aren't lost.
func (r *rig) awaitRenewed() {
	r.t.Helper()
	r.until("the set of events was renewed", func() bool { return r.sim.Calls("nvmlEventSetFree") > 0 })
}

// until waits for the source's goroutine, in its own time: a minute is for
// machines that are busy with other work.
func (r *rig) until(what string, done func() bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	for !done() {
		if ctx.Err() != nil {
			r.t.Fatalf("waited a minute until %s", what)
		}
		runtime.Gosched()
	}
}

func (r *rig) queued() int {
	r.src.events.mu.Lock()
	defer r.src.events.mu.Unlock()
	return len(r.src.events.queue)
}

func (r *rig) absent(why string, want float64) {
	r.t.Helper()
	if got := testutil.ToFloat64(r.src.metrics.absent.WithLabelValues(why)); got != want {
		r.t.Errorf("%v values are absent for %s, want %v", got, why, want)
	}
}

func (r *rig) inits(ok, failed float64) {
	r.t.Helper()
	m := r.src.metrics.inits
	if gotOK, gotFailed := testutil.ToFloat64(m.WithLabelValues("ok")), testutil.ToFloat64(m.WithLabelValues("error")); gotOK != ok || gotFailed != failed {
		r.t.Errorf("NVML was initialised %v times and failed %v times, want %v and %v", gotOK, gotFailed, ok, failed)
	}
}

// near compares a ratio with the model's truth.
func (r *rig) near(what string, got *float64, want float64) {
	r.t.Helper()
	switch {
	case got == nil:
		r.t.Errorf("%s is absent, want %v", what, want)
	case math.Abs(*got-want) > 1e-9:
		r.t.Errorf("%s is %v, want %v", what, *got, want)
	}
}

// metric is a value of a list of metrics; nil: it isn't there.
func metric(id uint32, ids []uint32, values []float64) *float64 {
	for i := range ids {
		if ids[i] == id {
			return &values[i]
		}
	}
	return nil
}

// profiles lists what leaves there are, without their lives.
func profiles(g *wire.Gpu) (out []string) {
	for _, l := range g.Leaves {
		out = append(out, l.Id+" "+l.Profile)
	}
	return out
}

func gpuAt(index int) gpusim.Entity { return gpusim.GPU(index) }

func event(gi, ci uint32) gonvml.EventData {
	return gonvml.EventData{EventType: gonvml.EventTypeXidCriticalError, GpuInstanceId: gi, ComputeInstanceId: ci}
}

// safeBuffer is a log that a goroutine writes while a test reads.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (r *rig) logged() string {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return r.log.text.String()
}
