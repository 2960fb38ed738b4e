package collector

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

var start = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

// memSpool is a spool in memory, with a disk that fails on demand.
type memSpool struct {
	mu      sync.Mutex
	records []spool.Record
	read    int
	acked   uint64
	meta    spool.Meta
	lost    []spool.DroppedRange
	fail    func() error // nil, or what Append answers
	more    chan struct{}
	appends int
	// ackMoved has room for one note that the cursor moved.
	ackMoved chan struct{}
}

func newMemSpool() *memSpool {
	return &memSpool{more: make(chan struct{}, 1), ackMoved: make(chan struct{}, 1), meta: spool.Meta{LastSlotStartMS: map[string]int64{}}}
}

func (s *memSpool) Append(_ context.Context, records [][]byte) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appends++
	if s.fail != nil {
		if err := s.fail(); err != nil {
			return 0, err
		}
	}
	first := uint64(len(s.records) + 1)
	for i, r := range records {
		s.records = append(s.records, spool.Record{ID: first + uint64(i), Data: r})
		o, _ := Describe(r)
		s.meta.BootMS, s.meta.LastSeq = o.BootMS, o.Seq
		s.meta.LastSlotStartMS[o.Node] = o.SlotStartMS
	}
	select {
	case s.more <- struct{}{}:
	default:
	}
	return first, nil
}

func (s *memSpool) Next(ctx context.Context, most int) ([]spool.Record, error) {
	for {
		s.mu.Lock()
		out := s.records[s.read:min(len(s.records), s.read+most)]
		s.read += len(out)
		s.mu.Unlock()
		if len(out) > 0 {
			return out, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.more:
		}
	}
}

func (s *memSpool) Ack(id uint64, refused ...spool.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked = id
	for _, r := range refused {
		o, _ := Describe(r.Data)
		s.lost = append(s.lost, spool.DroppedRange{
			FromID: r.ID, ToID: r.ID, BootMS: o.BootMS, FromSeq: o.Seq, ToSeq: o.Seq, Reason: spool.ReasonRefused,
		})
	}
	select {
	case s.ackMoved <- struct{}{}:
	default:
	}
	return nil
}

func (s *memSpool) ackedID() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked
}

func (s *memSpool) Meta() spool.Meta {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.meta
}

func (s *memSpool) Stats() spool.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return spool.Stats{DroppedRanges: s.lost}
}

func (s *memSpool) ForgetDropped(announced []spool.DroppedRange) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = slices.DeleteFunc(s.lost, func(r spool.DroppedRange) bool { return slices.Contains(announced, r) })
	return nil
}

// batches decodes what was spooled.
func (s *memSpool) batches(t *testing.T) []*wire.Batch {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*wire.Batch
	for _, r := range s.records {
		b, _, err := wire.Decode(r.Data)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

// fakeSource answers with one empty batch per node, and tells of each read.
type fakeSource struct {
	nodes []string
	reads chan time.Time // the slot's start
	err   error
	edit  func(*wire.Batch)
	held  time.Duration // by the clock, during each read
	clk   *clock.Fake
}

func (f *fakeSource) Read(_ context.Context, slot source.Slot) ([]*wire.Batch, error) {
	if f.held > 0 {
		f.clk.Advance(f.held)
	}
	var out []*wire.Batch
	for _, n := range f.nodes {
		b := &wire.Batch{
			Cluster: "c", Node: n, SlotStartMs: slot.Start.UnixMilli(), SlotMs: slot.Length.Milliseconds(),
			Attribution: wire.Attribution_ATTRIBUTION_OK,
		}
		if f.edit != nil {
			f.edit(b)
		}
		out = append(out, b)
	}
	if f.reads != nil {
		f.reads <- slot.Start
	}
	return out, f.err
}

// fakeProducer takes messages, or fails as told.
type fakeProducer struct {
	mu       sync.Mutex
	messages []broker.Message
	fail     func(call int, messages []broker.Message) error
	calls    int
	sent     chan int
}

func (p *fakeProducer) Produce(_ context.Context, messages []broker.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	var err error
	if p.fail != nil {
		err = p.fail(p.calls, messages)
	}
	var each *broker.ProduceError
	for i, m := range messages {
		if err == nil || (errors.As(err, &each) && each.Errs[i] == nil) {
			p.messages = append(p.messages, m)
		}
	}
	if p.sent != nil {
		p.sent <- len(p.messages)
	}
	return err
}

// bench is a collector with everything around it.
type bench struct {
	*Collector
	clk      *clock.Fake
	spool    *memSpool
	source   *fakeSource
	producer *fakeProducer
	reg      *prometheus.Registry
}

func newBench(t *testing.T, now time.Time, clk clock.Clock, sp *memSpool, nodes ...string) *bench {
	t.Helper()
	b := makeBench(t, now, clk, sp, nodes)
	b.spool = sp
	return b
}

// newRealBench is a bench on a spool on disk; its spool field is nil.
func newRealBench(t *testing.T, now time.Time, sp *spool.Spool, nodes ...string) *bench {
	t.Helper()
	return makeBench(t, now, nil, sp, nodes)
}

func makeBench(t *testing.T, now time.Time, clk clock.Clock, sp Spool, nodes []string) *bench {
	t.Helper()
	b := &bench{
		clk: clock.NewFake(now), producer: &fakeProducer{}, reg: prometheus.NewRegistry(),
		source: &fakeSource{nodes: nodes, reads: make(chan time.Time, 1000)},
	}
	b.source.clk = b.clk
	if clk == nil {
		clk = b.clk
	}
	cfg := DefaultConfig()
	cfg.Cluster, cfg.Collector = "c", "col-1"
	c, err := New(cfg, Deps{
		Source: b.source, Producer: b.producer, Spool: sp, Clock: clk,
		Log: slog.New(slog.DiscardHandler), Registry: b.reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Collector = c
	return b
}

func (b *bench) count(t *testing.T, name, label string) float64 {
	t.Helper()
	families, err := b.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == "gputally_collector_"+name && (len(m.Label) == 0 || m.Label[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s{%s}", name, label)
	return 0
}

// checkC1: sampled = spooled + dropped{reason}, in the metrics and in each batch.
func (b *bench) checkC1(t *testing.T) {
	t.Helper()
	dropped := 0.0
	for _, reason := range []string{droppedSpool, droppedInvalid, droppedStopped, droppedMissed} {
		dropped += b.count(t, "batches_dropped_total", reason)
	}
	sampled, spooled := b.count(t, "batches_sampled_total", ""), b.count(t, "batches_spooled_total", "")
	if sampled != spooled+dropped {
		t.Errorf("C1: %v sampled, %v spooled, %v dropped", sampled, spooled, dropped)
	}
	for i, batch := range b.spool.batches(t) {
		n := batch.Counters
		sum := n.Spooled
		for _, d := range n.Dropped {
			sum += d
		}
		if n.Sampled != sum {
			t.Errorf("C1: batch %d: %v", i, n)
		}
	}
}

func diff(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func openSpool(t *testing.T, dir string) *spool.Spool {
	t.Helper()
	sp, err := spool.Open(dir, spool.Options{Policy: spool.Block, Describe: Describe})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sp.Close(); err != nil {
			t.Error(err)
		}
	})
	return sp
}

// await polls until a condition holds that another goroutine brings about.
func await(t *testing.T, holds func() bool) {
	t.Helper()
	for ctx := testContext(t); !holds(); runtime.Gosched() {
		if ctx.Err() != nil {
			t.Fatal("waited in vain")
		}
	}
}

// testContext ends with the test, or when the code under test hangs.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
