package ingest_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions/decisionstest"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/wire"
)

const caseDir = "../testdata/contract/cases/"

func changed(t *testing.T, data []byte, change func(*wire.Batch)) []byte {
	t.Helper()
	b, _, err := wire.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	change(b)
	out, err := wire.Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// journal reads offset, status and reason of every journal row.
func (p *pipeline) journal(t *testing.T) []string {
	t.Helper()
	var rows []struct {
		Line string `ch:"line"`
	}
	if err := p.db.Select(t.Context(), &rows,
		`SELECT concat(toString(offset), ' ', toString(status), ' ', reason) AS line FROM batches FINAL ORDER BY offset`); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range rows {
		out = append(out, r.Line)
	}
	return out
}

func TestWhatCannotBeUsedIsDeadLetteredAndTheRestGoesOn(t *testing.T) {
	good := importFile(t, caseDir+"r12_three_owners.jsonl")[0]
	future, err := (func() ([]byte, error) {
		b, _, err := wire.Decode(good)
		if err != nil {
			return nil, err
		}
		out, err := wire.Encode(b)
		return append([]byte{0x08, 99}, out[2:]...), err // field 1, format 99
	})()
	if err != nil {
		t.Fatal(err)
	}
	live := func(slot time.Time) []byte {
		return changed(t, good, func(b *wire.Batch) {
			b.Origin, b.SlotStartMs, b.Node = wire.Origin_ORIGIN_LIVE, slot.UnixMilli(), "live"
		})
	}
	appended := time.Unix(1_800_000_000, 0)
	p := newPipeline(t)
	p.topic.append(
		good,
		[]byte("no protobuf"),
		future,
		changed(t, good, func(b *wire.Batch) { b.SlotMs = 60_000 }),
		changed(t, good, func(b *wire.Batch) { b.WindowToMs = b.SlotStartMs }),
		live(appended.Add(3*time.Minute)),
		live(appended.Add(-36*24*time.Hour)),
		live(appended.Add(-10*time.Second)),
		changed(t, good, func(b *wire.Batch) {
			b.Origin, b.SlotStartMs = wire.Origin_ORIGIN_IMPORT, appended.AddDate(1, 0, 0).UnixMilli()
		}),
		changed(t, good, func(b *wire.Batch) {
			b.Origin, b.SlotStartMs, b.Node = wire.Origin_ORIGIN_SIMULATED, appended.AddDate(1, 0, 0).UnixMilli(), "simulated"
		}),
	)
	p.drain(t)
	want := []string{
		"0 stored ", "1 dead garbage", "2 dead format", "3 dead slot_length", "4 dead window",
		"5 dead early", "6 dead late", "7 stored ", "8 dead early", "9 stored ",
	}
	if diff := cmp.Diff(want, p.journal(t)); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	var letters []string
	for _, m := range p.topic.dead {
		header := map[string]string{}
		for _, h := range m.Headers {
			header[h.Key] = string(h.Value)
		}
		if len(header["sha256"]) != 64 || header["error"] == "" || header["topic"] != broker.TopicSamples {
			t.Errorf("dead letter lacks its place, hash or error: %v", header)
		}
		letters = append(letters, header["offset"]+" "+header["reason"])
	}
	if diff := cmp.Diff([]string{"1 garbage", "2 format", "3 slot_length", "4 window", "5 early", "6 late", "8 early"},
		letters); diff != "" {
		t.Errorf("dead letters (-want +got):\n%s", diff)
	}
}

// flaky fails the first inserts into one table, and notes what happens in
// which order.
type flaky struct {
	*store.DB
	table string
	fails int
	order *[]string
}

func (f *flaky) Insert(ctx context.Context, table string, in proto.Input) error {
	if in[0].Data.Rows() == 0 {
		return nil
	}
	if table == f.table && f.fails > 0 {
		f.fails--
		*f.order = append(*f.order, table+" failed")
		return errors.New("connection refused")
	}
	*f.order = append(*f.order, table)
	return f.DB.Insert(ctx, table, in)
}

type noting struct {
	*topic
	order *[]string
}

func (n noting) Commit(ctx context.Context, msgs []broker.Message) error {
	*n.order = append(*n.order, "commit")
	return n.topic.Commit(ctx, msgs)
}

// TestInsertThenJournalThenCommit: whatever fails is tried again before the
// next step; offsets stay meanwhile.
func TestInsertThenJournalThenCommit(t *testing.T) {
	for _, table := range []string{"holds", "batches"} {
		t.Run(table, func(t *testing.T) {
			p := newPipeline(t)
			p.topic.append(importFile(t, caseDir+"r12_three_owners.jsonl")...)
			var order []string
			fake, reg := clock.NewFake(time.Unix(1_800_000_000, 0)), prometheus.NewRegistry()
			in, err := ingest.New(ingest.DefaultConfig(), ingest.Deps{
				Origins: &decisionstest.Open{}, Consumer: noting{p.topic, &order}, DeadLetters: p.topic,
				Store: &flaky{DB: p.db, table: table, fails: 2, order: &order},
				Clock: fake, Log: slog.New(slog.DiscardHandler), Registry: reg,
			})
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- in.Run(t.Context()) }()
			for range 2 {
				if err := fake.BlockUntil(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
				if p.topic.committed != 0 {
					t.Errorf("committed %d before the insert succeeded", p.topic.committed)
				}
				fake.Advance(10 * time.Second)
			}
			<-done
			want := []string{"clusters", "leaves", "owners", "samples", "holds", "batches", "commit"}
			i := slices.Index(want, table)
			want = slices.Insert(want, i, table+" failed", table+" failed")
			if diff := cmp.Diff(want, order); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
			if n, err := testutil.GatherAndCount(reg, "gputally_ingest_retries_total"); err != nil || n != 1 {
				t.Errorf("retries are not counted: %d series, %v", n, err)
			}
		})
	}
}

func TestCopiesAndRepetitionsChangeNothing(t *testing.T) {
	batches := importFile(t, caseDir+"r9_mig.jsonl")
	want := wantUsage(t, caseDir+"r9_mig.csv")
	p := newPipeline(t)
	p.topic.append(batches...)
	p.drain(t)
	for range 20 {
		p.topic.append(batches...)
	}
	p.drain(t)
	if diff := cmp.Diff(want, p.usage(t)); diff != "" {
		t.Errorf("copies changed figures (-want +got):\n%s", diff)
	}
	p.topic.committed = 0 // killed before the commit: all of it comes again
	p.drain(t)
	if diff := cmp.Diff(want, p.usage(t)); diff != "" {
		t.Errorf("a repeated chunk changed figures (-want +got):\n%s", diff)
	}
	if got := len(p.journal(t)); got != len(p.topic.msgs) {
		t.Errorf("journal has %d rows for %d offsets", got, len(p.topic.msgs))
	}
}

// TestCorrectionsAfterPublication: what comes in after an hour was published
// replaces it, whatever order it comes in (R1, R5).
func TestCorrectionsAfterPublication(t *testing.T) {
	for _, name := range []string{
		"r1_fewer_owners", "r1_failed_loses", "r10_gap_over_the_hour", "r14_moved",
		"r4_attribution_failed", "r9_lost",
	} {
		t.Run(name, func(t *testing.T) {
			p := newPipeline(t)
			batches := importFile(t, caseDir+name+".jsonl")
			slices.Reverse(batches)
			for _, b := range batches {
				p.topic.append(b)
				p.drain(t)
			}
			if diff := cmp.Diff(wantUsage(t, caseDir+name+".csv"), p.usage(t)); diff != "" {
				t.Errorf("one by one, backwards (-want +got):\n%s", diff)
			}
		})
	}
}

func (p *pipeline) remap(t *testing.T, tenants string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tenants.yaml")
	if err := os.WriteFile(file, []byte(tenants), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := ledger.DefaultConfig()
	cfg.TenantsFile = file
	l, err := ledger.New(cfg,
		ledger.Deps{Store: p.db, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	p.ledger = l
}

func (p *pipeline) tenants(t *testing.T) []string {
	t.Helper()
	seen := map[string]bool{}
	for l := range p.usage(t) {
		seen[l.Hour[11:13]+" "+l.Tenant] = true
	}
	var out []string
	for k := range seen {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// TestANewMappingRepublishes: tenants are mapped when the hour is computed,
// effective-dated; no match is a real account (R15).
func TestANewMappingRepublishes(t *testing.T) {
	p := newPipeline(t)
	p.topic.append(importFile(t, caseDir+"r10_gap_over_the_hour.jsonl")...)
	p.drain(t)
	if diff := cmp.Diff([]string{"00 ", "00 a", "01 ", "01 a", "01 b"}, p.tenants(t)); diff != "" {
		t.Fatalf("own names (-want +got):\n%s", diff)
	}
	p.remap(t, "versions:\n- effective: 2026-03-01T01:00:00Z\n  rules:\n  - {match: {namespace: a*}, tenant: physics}\n")
	p.drain(t)
	if diff := cmp.Diff([]string{"00 ", "00 a", "01 ", "01 physics", "01 unassigned"}, p.tenants(t)); diff != "" {
		t.Errorf("mapped from 01:00 on (-want +got):\n%s", diff)
	}
	if n, err := p.ledger.Pass(t.Context()); err != nil || n != 0 {
		t.Errorf("a second pass finds %d dirty hours, %v", n, err)
	}
}

// TestLessRawThanPromisedIsRefused: the published rows stay (R3).
func TestLessRawThanPromisedIsRefused(t *testing.T) {
	p := newPipeline(t)
	p.topic.append(importFile(t, caseDir+"r9_mig.jsonl")...)
	p.drain(t)
	before := p.usage(t)
	if err := p.db.Exec(t.Context(),
		`ALTER TABLE holds DELETE WHERE leaf = (SELECT min(leaf) FROM holds WHERE leaf != 0) SETTINGS mutations_sync = 2`); err != nil {
		t.Fatal(err)
	}
	p.remap(t, "versions:\n- effective: 2026-01-01T00:00:00Z\n  rules: []\n")
	_, err := p.ledger.Pass(t.Context())
	var refused *ledger.Refused
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "rows") {
		t.Fatalf("pass over damaged raw: %v; want a refusal that counts rows", err)
	}
	if diff := cmp.Diff(before, p.usage(t)); diff != "" {
		t.Errorf("the published rows changed (-want +got):\n%s", diff)
	}
}
