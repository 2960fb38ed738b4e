package dcgm

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector"
	"github.com/gputally/gputally/collector/attribution"
	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/local"
	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/gpusim"
	"github.com/gputally/gputally/internal/wire"
)

// benchSlots is how many slots each figure is the mean of.
const benchSlots = 300

// BenchmarkSlot is what a slot of 10 s costs the node, on simulated GPUs: a
// whole collector (read, cut, encode, spool with fsync; attribution polled each
// second, apart) beside a bare loop of the same calls of DCGM in the same run.
//
//	floor-µs/slot  CPU of the bare calls into a reused buffer
//	slot-µs/slot   CPU of read, cut, encode and spool; ratio is to the floor
//	looks-µs/slot  CPU of nine looks at the MIG hierarchy between readings
//	polls-µs/slot  CPU of ten polls of owners, one per entity
//	garbage-B/slot allocated by read, cut, encode and spool
//	rss-MB         of this process at the end, simulator and test included
func BenchmarkSlot(b *testing.B) {
	for _, c := range []struct {
		entities, instances int
		gpus                string
	}{{8, 0, "gpus 8"}, {64, 7, "gpus 8;mig all 1g.10gb*7"}} {
		b.Run(fmt.Sprintf("entities=%d", c.entities), func(b *testing.B) {
			r := newBenchRig(b, c.gpus, c.instances)
			for b.Loop() {
				r.run(b)
			}
		})
	}
}

// benchRig is a collector whose slots the benchmark cuts itself, one after
// another, in the model's time.
type benchRig struct {
	sim     *gpusim.Sim
	clk     *clock.Fake
	src     *Source
	tracker *attribution.Tracker
	spool   *spool.Spool
	col     *collector.Collector
	slot    source.Slot
}

func newBenchRig(b *testing.B, gpus string, instances int) *benchRig {
	sim := gpusim.Open(b)
	sim.Do(gpus)
	clk, log := clock.NewFake(sim.Now()), slog.New(slog.DiscardHandler)
	reg, dir := prometheus.NewRegistry(), b.TempDir()
	builder, err := local.New(local.DefaultConfig(), local.Deps{Cluster: "c", Node: "n", StateFile: dir + "/devices.json", Clock: clk, Log: log, Registry: reg})
	must(b, err)
	cfg := DefaultConfig()
	cfg.Library = sim.DCGM()
	r := &benchRig{sim: sim, clk: clk, slot: source.At(sim.Now(), slotMS*time.Millisecond)}
	r.src, err = New(cfg, builder)
	must(b, err)
	b.Cleanup(r.src.Close)
	r.tracker, err = attribution.New(attribution.DefaultConfig(), attribution.Deps{
		Node: "n", Readers: []attribution.Reader{everybody{instances}}, Clock: clk, Log: log, Registry: reg,
	})
	must(b, err)
	r.spool, err = spool.Open(dir+"/spool", spool.Options{MaxBytes: 1 << 30, Describe: collector.Describe, Log: log})
	must(b, err)
	b.Cleanup(func() { _ = r.spool.Close() })
	of := collector.DefaultConfig()
	of.Cluster, of.Collector, of.SpoolDir = "c", "n", dir+"/spool"
	r.col, err = collector.New(of, collector.Deps{
		Source: benchSource{r}, Producer: nobody{}, Spool: r.spool, Clock: clk, Log: log, Registry: reg,
	})
	must(b, err)
	r.pass(1)
	return r
}

// pass lets slots go by, looked at and polled each second.
func (r *benchRig) pass(slots int) (looks, polls time.Duration) {
	for range slots {
		for range 10 {
			r.sim.Advance(time.Second)
			r.clk.Advance(time.Second)
			looks += cpu(r.src.Watch)
			polls += cpu(func() { r.tracker.Poll(context.Background()) })
		}
		r.slot = r.slot.Next()
	}
	return looks, polls
}

// benchSource reads the rig's slot, whatever the collector asks for: the
// collector is driven by Backfill, whose slots are those.
type benchSource struct{ r *benchRig }

func (s benchSource) Read(ctx context.Context, slot source.Slot) ([]*wire.Batch, error) {
	batches, err := s.r.src.Read(ctx, slot)
	s.r.tracker.Attribute(slot, batches)
	return batches, err
}

func (s benchSource) Commit() { s.r.src.Commit() }

func (r *benchRig) run(b *testing.B) {
	var floor, whole, looks, polls time.Duration
	var garbage uint64
	for range benchSlots {
		slot := r.slot
		l, p := r.pass(1)
		looks, polls = looks+l, polls+p
		floor += cpu(func() { r.bare(b, slot) })
		before := allocated()
		whole += cpu(func() {
			must(b, r.col.Backfill(context.Background(), slot.Start, slot.End(), nil))
		})
		garbage += allocated() - before
	}
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / benchSlots }
	b.ReportMetric(per(floor), "floor-µs/slot")
	b.ReportMetric(per(whole), "slot-µs/slot")
	b.ReportMetric(float64(whole)/float64(floor), "ratio")
	b.ReportMetric(per(looks), "looks-µs/slot")
	b.ReportMetric(per(polls), "polls-µs/slot")
	b.ReportMetric(float64(garbage)/benchSlots, "garbage-B/slot")
	b.ReportMetric(rss(b), "rss-MB")
	b.ReportMetric(0, "ns/op")
}

// bare is the floor: the calls of a reading, into the same buffers, with nothing
// done about what they say.
func (r *benchRig) bare(b *testing.B, slot source.Slot) {
	ses := r.src.session
	for _, w := range []*watch{ses.watches.xid, ses.watches.activity} {
		if w != nil {
			_, err := ses.link.since(w, slot.Start.UnixMicro())
			must(b, err)
		}
	}
	for _, c := range ses.layout.calls(r.src.extra) {
		_, err := ses.link.latest(c.entities, c.fields)
		must(b, err)
	}
}

// everybody is a reader by which every GPU, or every instance, is held.
type everybody struct{ instances int }

func (everybody) Name() string { return "bench" }

func (e everybody) Read(context.Context) (attribution.Snapshot, error) {
	var snap attribution.Snapshot
	for i := range uint32(8) {
		hold := func(gi *uint32) {
			name := fmt.Sprint("pod-", len(snap.Holdings))
			snap.Holdings = append(snap.Holdings, attribution.Holding{
				Device: attribution.Device{Index: &i, GI: gi}, Owner: &wire.Owner{Namespace: "ns", Pod: name, Uid: "uid-" + name},
			})
		}
		for n := range uint32(e.instances) {
			gi := n + 7
			hold(&gi)
		}
		if e.instances == 0 {
			hold(nil)
		}
	}
	return snap, nil
}

// nobody is a producer that is never asked.
type nobody struct{}

func (nobody) Produce(context.Context, []broker.Message) error { return nil }

// cpu is the processor time that work takes, user and system, all threads.
func cpu(work func()) time.Duration {
	before := used()
	work()
	return used() - before
}

func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// rss is the resident memory of this process in MB.
func rss(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	must(b, err)
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(kb), " kB"), 64)
			must(b, err)
			return n / 1000
		}
	}
	b.Fatal("no VmRSS in /proc/self/status")
	return 0
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
