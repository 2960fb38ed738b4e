package devices_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/gputally/gputally/collector/source/exporter"
	"github.com/gputally/gputally/collector/source/local"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

// fullNode has 8 GPUs of 7 instances, each held, with ten fields.
func fullNode() *wire.Batch {
	b := batch(0)
	for i := range 8 {
		g := &wire.Gpu{
			Uuid: fmt.Sprintf("GPU-%d", i), Model: "NVIDIA H100 80GB HBM3", Slices: 7, Mig: true, Index: uint32(i), PowerWatts: proto.Float64(300),
		}
		for j := range 7 {
			id := fmt.Sprintf("gi%d", j)
			l := &wire.Leaf{Id: id, Slices: 1, Profile: "1g.10gb", Gi: proto.Uint32(uint32(j)), SmActive: proto.Float64(0.5), GrEngineActive: proto.Float64(0.5)}
			for field := range uint32(8) {
				l.MetricFields, l.MetricValues = append(l.MetricFields, 1003+field), append(l.MetricValues, 0.5)
			}
			g.Leaves = append(g.Leaves, l)
			g.Holds = append(g.Holds, hold(id, &wire.Owner{Namespace: "ml-vision", Pod: fmt.Sprintf("p-%d-%d", i, j), Uid: fmt.Sprintf("u-%d-%d", i, j)}))
		}
		b.Gpus = append(b.Gpus, g)
	}
	return b
}

func BenchmarkObserve(b *testing.B) {
	r := newRig(b)
	node := []*wire.Batch{fullNode()}
	for b.Loop() {
		r.Observe(node)
	}
}

func BenchmarkScrape(b *testing.B) {
	r := newRig(b)
	r.Observe([]*wire.Batch{fullNode()})
	for b.Loop() {
		r.gather()
	}
}

// TestSeriesAreBounded by devices and fields: another slot of other pods has no
// more of them.
func TestSeriesAreBounded(t *testing.T) {
	count := func(r *rig) (n int) {
		for _, f := range r.gather() {
			n += len(f.Metric)
		}
		return n
	}
	r := newRig(t)
	r.observe(fullNode())
	first := count(r)
	for n := range 50 {
		r.to(n + 1)
		b := fullNode()
		b.SlotStartMs += int64(n+1) * 10_000
		for _, g := range b.Gpus {
			for _, h := range g.Holds {
				h.Owner.Pod, h.Owner.Uid = fmt.Sprint(h.Owner.Pod, n), fmt.Sprint(h.Owner.Uid, n)
			}
		}
		r.observe(b)
	}
	if again := count(r); again != first {
		t.Errorf("%d series after 50 slots of other pods, want %d as after the first", again, first)
	}
}

// TestNamesBesideTheSources: all of a collector's metrics go into one registry.
func TestNamesBesideTheSources(t *testing.T) {
	r := newRig(t)
	log, now := discard(), clock.Clock(r.clock)
	if _, err := local.New(local.DefaultConfig(), local.Deps{Cluster: "k", Node: "n1", Clock: now, Log: log, Registry: r.reg}); err != nil {
		t.Fatal(err)
	}
	cfg := exporter.DefaultConfig()
	cfg.Targets = []exporter.Target{{URL: "http://127.0.0.1:9400/metrics"}}
	if _, err := exporter.New(cfg, exporter.Deps{Cluster: "k", Clock: now, Log: log, Registry: r.reg}); err != nil {
		t.Fatal(err)
	}
	r.observe(scene())
	if len(r.samples(power)) != 3 || len(r.samples("gputally_device_resets_total")) != 1 {
		t.Error("not all are there")
	}
}
