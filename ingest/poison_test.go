package ingest_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions/decisionstest"
	"github.com/gputally/gputally/internal/wire"
)

// poisonEnv sets how many messages the poison test takes.
const poisonEnv = "GPUTALLY_POISON_MESSAGES"

const (
	poisonCount = 5000 // messages
	poisonEvery = 100
	poisonHuge  = 3 // messages of 10 MB
	poisonNodes = 200
	// poisonHeapBytes is what ingest may keep once it has read everything: far less
	// than one of the huge messages.
	poisonHeapBytes = 4 << 20
)

// poison is what is wrong with a message, and the reason that its letter gives.
type poison struct {
	reason string
	value  func(t testing.TB, i int) []byte
}

func alteredBatch(change func(*wire.Batch)) func(testing.TB, int) []byte {
	return func(t testing.TB, i int) []byte {
		b := fleetBatch(i%poisonNodes, i/poisonNodes)
		change(b)
		return encoded(t, b)
	}
}

func poisons() []poison {
	return []poison{
		{"garbage", func(_ testing.TB, i int) []byte { return append([]byte{0xff, 0xff}, strconv.Itoa(i)...) }},
		{"format", func(t testing.TB, i int) []byte {
			return append(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 99),
				encoded(t, fleetBatch(i, 0))[2:]...)
		}},
		// A field of another type than the contract's is an unknown field, and absent.
		{"format", func(t testing.TB, i int) []byte {
			return append(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "1"),
				encoded(t, fleetBatch(i, 0))[2:]...)
		}},
		{"invalid", alteredBatch(func(b *wire.Batch) { b.SlotStartMs++ })},
		{"invalid", alteredBatch(func(b *wire.Batch) { b.Gpus[0].Uuid = "" })},
		{"invalid", alteredBatch(func(b *wire.Batch) { b.Gpus[0].Holds[0].Leaf = "none" })},
		{"slot_length", alteredBatch(func(b *wire.Batch) { b.SlotMs, b.SlotStartMs = 60_000, fleetStart.UnixMilli() })},
		{"window", alteredBatch(func(b *wire.Batch) { b.WindowToMs = b.SlotStartMs })},
	}
}

// endless makes its messages as they are fetched, every hundredth of them poisoned.
type endless struct {
	t         testing.TB
	n         int
	committed int
	poisons   []poison
	buried    map[string]int
	huge      []byte
}

// poisonAt is what is wrong with message i; nil: nothing.
func (e *endless) poisonAt(i int) *poison {
	switch k := i / poisonEvery; {
	case i%poisonEvery != poisonEvery/2:
		return nil
	case k < poisonHuge:
		return &poison{"garbage", func(testing.TB, int) []byte { return e.huge }}
	default:
		return &e.poisons[k%len(e.poisons)]
	}
}

func (e *endless) message(i int) broker.Message {
	m := broker.Message{Topic: broker.TopicSamples, Offset: int64(i), Time: time.Unix(1_800_000_000, 0)}
	if p := e.poisonAt(i); p != nil {
		m.Value = p.value(e.t, i)
	} else {
		m.Value = encoded(e.t, fleetBatch(i%poisonNodes, i/poisonNodes))
	}
	return m
}

func (e *endless) Fetch(_ context.Context, limit int, _ time.Duration) (out []broker.Message, _ error) {
	for i := e.committed; i < min(e.committed+limit, e.n); i++ {
		out = append(out, e.message(i))
	}
	if len(out) == 0 {
		return nil, context.Canceled
	}
	return out, nil
}

func (e *endless) Commit(_ context.Context, msgs []broker.Message) error {
	e.committed = int(msgs[len(msgs)-1].Offset) + 1
	return nil
}

func (e *endless) Produce(_ context.Context, msgs []broker.Message) error {
	for _, m := range msgs {
		for _, h := range m.Headers {
			if h.Key == "reason" {
				e.buried[string(h.Value)]++
			}
		}
	}
	return nil
}

// TestPoisonStopsNothing: one message in a hundred can't be used, some of them
// are of 10 MB. Each is one dead letter with its reason, the rest is all there,
// the partition moves on, and no memory stays behind.
func TestPoisonStopsNothing(t *testing.T) {
	n := poisonCount
	if text := os.Getenv(poisonEnv); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", poisonEnv, err)
		}
	}
	p := newPipeline(t)
	e := &endless{t: t, n: n, poisons: poisons(), buried: map[string]int{}, huge: bytes.Repeat([]byte{0xff}, 10_000_000)}
	in, err := ingest.New(ingest.DefaultConfig(), ingest.Deps{
		Consumer: e, Origins: &decisionstest.Open{}, DeadLetters: e, Store: p.db, Clock: clock.Real(),
		Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	before := heap()
	if err := in.Run(t.Context()); !errors.Is(err, context.Canceled) {
		t.Fatalf("ingest ended with %v, want the end of the topic", err)
	}
	kept := int64(heap()) - int64(before)
	t.Logf("%d messages left %d KiB on the heap", n, kept>>10)
	if kept > poisonHeapBytes {
		t.Errorf("%d messages left %d bytes on the heap, want at most %d", n, kept, poisonHeapBytes)
	}
	injected := map[string]int{}
	for i := range n {
		if p := e.poisonAt(i); p != nil {
			injected[p.reason]++
		}
	}
	if diff := cmp.Diff(injected, e.buried); diff != "" {
		t.Errorf("dead letters (-injected +got):\n%s", diff)
	}
	var rows []struct {
		Reason string `ch:"reason"`
		Count  uint64 `ch:"messages"`
	}
	if err := p.db.Select(t.Context(), &rows,
		`SELECT reason, count() AS messages FROM batches FINAL GROUP BY reason`); err != nil {
		t.Fatal(err)
	}
	journal, good := map[string]int{}, 0
	for _, r := range rows {
		if r.Reason == "" {
			good = int(r.Count)
			continue
		}
		journal[r.Reason] = int(r.Count)
	}
	if diff := cmp.Diff(injected, journal); diff != "" {
		t.Errorf("journal (-injected +got):\n%s", diff)
	}
	if want := n - n/poisonEvery; good != want || int(p.count(t, "holds")) != want {
		t.Errorf("%d batches and %d rows, want %d of both", good, p.count(t, "holds"), want)
	}
	p.topic.committed = int64(n)
	p.topic.msgs = make([]broker.Message, n)
	if found, failed := p.checks(t)["C3"]; failed {
		t.Errorf("C3: %s", found)
	}
}

// TestHistoryOfManyWeeksIsTakenInSeveralInserts: ClickHouse refuses a block of
// more than a hundred partitions, whenever it is tried again.
func TestHistoryOfManyWeeksIsTakenInSeveralInserts(t *testing.T) {
	const weeks = 110
	p := newPipeline(t)
	for week := range weeks {
		b := fleetBatch(0, 0)
		b.SlotStartMs, b.Seq = fleetStart.AddDate(0, 0, -7*week).UnixMilli(), uint64(week)
		b.Events = []*wire.Event{{Kind: "reset", Gpu: "GPU-000"}}
		p.topic.append(encoded(t, b))
	}
	reg := p.start(t, ingest.DefaultConfig(), p.db, clock.Real())
	reg.read(t)
	if got := retries(t, reg.reg); len(got) > 0 {
		t.Errorf("retries: %v, want none", got)
	}
	if got := []uint64{
		p.count(t, "holds"), p.count(t, "samples"), p.count(t, "events"),
		p.count(t, "batches"),
	}; !slices.Equal(got, []uint64{weeks, weeks, weeks, weeks}) {
		t.Errorf("rows of holds, samples, events, batches: %d, want %d each", got, weeks)
	}
}
