package ledger_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions/decisionstest"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/wire"
)

var discard = slog.New(slog.DiscardHandler)

// monday is the first hour of the tests' time: a week begins.
var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// topic is a partition in memory.
type topic struct {
	msgs      []broker.Message
	committed int
	dead      []broker.Message
}

func (p *topic) append(t testing.TB, batches ...*wire.Batch) {
	t.Helper()
	for _, b := range batches {
		data, err := wire.Encode(b)
		if err != nil {
			t.Fatal(err)
		}
		p.msgs = append(p.msgs, broker.Message{Topic: broker.TopicSamples, Value: data, Offset: int64(len(p.msgs)), Time: time.UnixMilli(b.SlotStartMs + b.SlotMs)})
	}
}

func (p *topic) Fetch(_ context.Context, limit int, _ time.Duration) ([]broker.Message, error) {
	next := p.msgs[p.committed:]
	if len(next) == 0 {
		return nil, context.Canceled
	}
	return next[:min(limit, len(next))], nil
}

func (p *topic) Commit(_ context.Context, msgs []broker.Message) error {
	p.committed = int(msgs[len(msgs)-1].Offset) + 1
	return nil
}

func (p *topic) Produce(_ context.Context, msgs []broker.Message) error {
	p.dead = append(p.dead, msgs...)
	return nil
}

// house is ingest and ledger on a real engine, at a time of its own.
type house struct {
	topic *topic
	db    *store.DB
	clock clock.Clock
}

func newHouse(t testing.TB, c clock.Clock) *house {
	return &house{topic: &topic{}, db: storetest.Open(t), clock: c}
}

// ingest takes all that the topic holds.
func (h *house) ingest(t testing.TB) {
	t.Helper()
	in, err := ingest.New(ingest.DefaultConfig(), ingest.Deps{
		Consumer: h.topic, Origins: &decisionstest.Open{}, DeadLetters: h.topic, Store: h.db, Clock: h.clock, Log: discard, Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Fatalf("ingest ended with %v, want the end of the topic", err)
	}
	if len(h.topic.dead) > 0 {
		t.Fatalf("%d dead letters, want none", len(h.topic.dead))
	}
}

// ledger is a new one with the configuration changed.
func (h *house) ledger(t testing.TB, s ledger.Store, change func(*ledger.Config)) *ledger.Ledger {
	t.Helper()
	cfg := ledger.DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	l, err := ledger.New(cfg, ledger.Deps{Store: s, Clock: h.clock, Log: discard, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// dump is a table's rows as text, in order of its key.
func (h *house) dump(t testing.TB, sql string) []string {
	t.Helper()
	var rows []struct {
		Line string `ch:"line"`
	}
	if err := h.db.Select(t.Context(), &rows, sql); err != nil {
		t.Fatal(err)
	}
	lines := make([]string, len(rows))
	for i, r := range rows {
		lines[i] = r.Line
	}
	return lines
}

const (
	dumpUsage     = `SELECT formatRowNoNewline('TSV', *) AS line FROM usage_hourly FINAL ORDER BY cluster, hour, gpu`
	dumpSightings = `SELECT formatRowNoNewline('TSV', *) AS line FROM sightings FINAL ORDER BY cluster, hour, gpu, node`
)

func (h *house) exec(t testing.TB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if err := h.db.Exec(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// watched is a store that notes what is asked of it.
type watched struct {
	*store.DB
	mu      sync.Mutex
	streams []map[string]any // parameters of each
	selects []map[string]any
}

func parameters(args []any) map[string]any {
	out := map[string]any{}
	for _, a := range args {
		if n, ok := a.(driver.NamedValue); ok {
			out[n.Name] = n.Value
		}
	}
	return out
}

func (w *watched) Stream(ctx context.Context, columns proto.Results, onBlock func(rows int) error, sql string, args ...any) error {
	w.mu.Lock()
	w.streams = append(w.streams, parameters(args))
	w.mu.Unlock()
	return w.DB.Stream(ctx, columns, onBlock, sql, args...)
}

func (w *watched) Select(ctx context.Context, dest any, sql string, args ...any) error {
	w.mu.Lock()
	w.selects = append(w.selects, parameters(args))
	w.mu.Unlock()
	return w.DB.Select(ctx, dest, sql, args...)
}

// fleet makes batches with everything that moves a ledger: MIG layouts,
// changing owners, silent nodes, GPUs on two nodes and on the move, failed
// attribution, partial slots, corrections of higher rev.
type fleet struct {
	*rand.Rand
	slotMS int64
	nodes  int
	gpus   []fleetGPU
	seq    map[string]uint64
}

type fleetGPU struct {
	uuid  string
	mig   bool
	node  int
	owner [7]string
}

func newFleet(seed uint64, slot time.Duration, nodes, gpusPerNode int) *fleet {
	f := &fleet{Rand: rand.New(rand.NewPCG(seed, 7)), slotMS: slot.Milliseconds(), nodes: nodes, seq: map[string]uint64{}}
	for i := range nodes * gpusPerNode {
		f.gpus = append(f.gpus, fleetGPU{uuid: fmt.Sprintf("GPU-%04d", i), mig: i%4 == 1, node: i / gpusPerNode})
	}
	return f
}

// hours makes the batches of n hours from start on.
func (f *fleet) hours(start time.Time, n int) (out []*wire.Batch) {
	for at := start.UnixMilli(); at < start.UnixMilli()+int64(n)*3_600_000; at += f.slotMS {
		for node := range f.nodes {
			if f.Float64() < 0.01 {
				continue
			}
			b := f.batch(node, at)
			if out = append(out, b); f.Float64() < 0.01 {
				out = append(out, f.batch(node, at)) // said again, otherwise
			}
		}
	}
	return out
}

func (f *fleet) batch(node int, at int64) *wire.Batch {
	name := fmt.Sprintf("node-%d", node)
	collector := "collector-of-" + name
	b := &wire.Batch{
		Format: 1, Cluster: "c", Node: name, SlotStartMs: at, SlotMs: f.slotMS, Collector: collector, BootMs: 1, Seq: f.seq[name],
		Attribution: wire.Attribution_ATTRIBUTION_OK, Enumeration: wire.Enumeration_ENUMERATION_COMPLETE,
		Origin: wire.Origin_ORIGIN_SIMULATED, WindowFromMs: 0, WindowToMs: 1 << 50,
	}
	f.seq[name]++
	if f.Float64() < 0.02 {
		b.Attribution = wire.Attribution_ATTRIBUTION_FAILED
	}
	if f.Float64() < 0.03 {
		b.Observed = []*wire.Interval{{FromMs: 1000, ToMs: f.slotMS - f.Int64N(f.slotMS/2)}}
	}
	for i := range f.gpus {
		g := &f.gpus[i]
		if g.node == node && f.Float64() < 0.001 {
			g.node = f.IntN(f.nodes)
		}
		if g.node == node || f.Float64() < 0.001 {
			b.Gpus = append(b.Gpus, f.gpu(g))
		}
	}
	return b
}

func (f *fleet) gpu(g *fleetGPU) *wire.Gpu {
	out := &wire.Gpu{Uuid: g.uuid, Model: "NVIDIA H100 80GB HBM3", Slices: 7, Mig: g.mig, Lost: f.Float64() < 0.002, EnergyMj: new(f.Int64N(9_000_000)), PowerWatts: new(300.0)}
	leaves := []uint32{7}
	if g.mig {
		leaves = []uint32{3, 2, 1}
	}
	for i, slices := range leaves {
		leaf := &wire.Leaf{Id: fmt.Sprintf("leaf-%d", i), Slices: slices, SmActive: new(float64(f.IntN(3)) / 4)}
		if g.mig {
			leaf.Profile, leaf.Gi = fmt.Sprintf("%dg.10gb", slices), new(uint32(i+1))
		}
		out.Leaves = append(out.Leaves, leaf)
		if f.Float64() < 0.02 {
			g.owner[i] = fmt.Sprintf("pod-%d", f.IntN(40))
		}
		if g.owner[i] != "" {
			out.Holds = append(out.Holds, &wire.Hold{Leaf: leaf.Id, Owner: &wire.Owner{Uid: g.owner[i], Namespace: "team-" + g.owner[i][4:5], Pod: g.owner[i]}})
		}
	}
	return out
}
