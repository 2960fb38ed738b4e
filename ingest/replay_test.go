package ingest_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions/decisionstest"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/wire"
)

// TestReplayBringsBackWhatClickHouseLost, and leaves the group's offsets alone.
func TestReplayBringsBackWhatClickHouseLost(t *testing.T) {
	p := newPipeline(t)
	p.topic.append(fleet(t, 3, 400)...)
	p.topic.append([]byte("garbage"))
	p.drain(t)
	want, journal, committed, dead := p.usage(t), p.journal(t), p.topic.committed, len(p.topic.dead)
	for _, table := range []string{"holds", "samples", "owners", "leaves", "batches"} {
		p.exec(t, "ALTER TABLE "+table+" DELETE WHERE "+map[string]string{
			"holds": "node = 'n001'", "samples": "node = 'n002'", "owners": "1", "leaves": "1", "batches": "offset % 5 = 0",
		}[table]+" SETTINGS mutations_sync = 2")
	}
	p.ledger = newLedger(t, p.db)
	if got := names(p.checks(t)); !strings.Contains(got, "C3") || !strings.Contains(got, "C6") {
		t.Fatalf("raw and journal are damaged, but only %q fail", got)
	}
	sum := p.replay(t, ingest.DefaultConfig(), 0)
	wantSum := ingest.Replayed{Messages: 1201, Stored: 1200, Dead: 1, Changed: 241}
	if diff := cmp.Diff(wantSum, sum); diff != "" {
		t.Errorf("replayed (-want +got):\n%s", diff)
	}
	p.ledger = newLedger(t, p.db)
	if _, err := p.ledger.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, p.usage(t)); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(journal, p.journal(t)); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	p.mustPassChecks(t)
	if n := p.count(t, "samples"); n != 1200 {
		t.Errorf("%d rows of samples, want 1200", n)
	}
	if p.topic.committed != committed {
		t.Errorf("the group stands at %d, stood at %d", p.topic.committed, committed)
	}
	// The one dead message's journal row was among those deleted.
	if len(p.topic.dead) != dead+1 {
		t.Errorf("%d dead letters, want %d", len(p.topic.dead), dead+1)
	}
	if again := p.replay(t, ingest.DefaultConfig(), 0); again.Changed != 0 || again.Cleared != 0 ||
		len(p.topic.dead) != dead+1 {
		t.Errorf("a second replay changed something: %+v, %d dead letters", again, len(p.topic.dead))
	}
}

func (p *pipeline) count(t *testing.T, table string) (n uint64) {
	t.Helper()
	if err := p.db.QueryRow(t.Context(), "SELECT count() FROM "+table+" FINAL").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Older rules may have said otherwise of a batch, in rows of other keys: they go.
func TestReplayClearsRowsThatABatchDoesNotHave(t *testing.T) {
	p := newPipeline(t)
	p.topic.append(fleet(t, 2, 360)...)
	p.drain(t)
	want := p.usage(t)
	p.exec(t, `INSERT INTO holds (cluster, node, gpu, slot, slot_ms, batch, model, slices, leaf, owner, bucket, slice_ms, rules)
		SELECT cluster, node, gpu, slot, slot_ms, batch, model, slices, leaf, owner, 'unproven', slice_ms, 0 FROM holds FINAL WHERE node = 'n001' AND slot < '2026-03-02 00:10:00'`)
	p.ledger = newLedger(t, p.db)
	if got := names(p.checks(t)); !strings.Contains(got, "C3") {
		t.Fatalf("rows were added, but only %q fail", got)
	}
	if sum := p.replay(t, ingest.DefaultConfig(), 0); sum.Cleared != 60 || sum.Changed != 0 {
		t.Errorf("replayed: %+v, want 60 batches cleared", sum)
	}
	p.ledger = newLedger(t, p.db)
	p.mustPassChecks(t)
	if diff := cmp.Diff(want, p.usage(t)); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

// A message that was dead and can be used now counts from now on; one that counts
// already does so for good, since the journal only grows (R5). Each offset has
// one journal row.
func TestReplayUnderOtherRules(t *testing.T) {
	p := newPipeline(t)
	appended := time.Unix(1_800_000_000, 0)
	for i := range 8 {
		b := fleetBatch(0, i)
		b.Origin = wire.Origin_ORIGIN_LIVE
		b.SlotStartMs = appended.Add(time.Duration(i-8) * time.Hour).Truncate(time.Hour).UnixMilli()
		p.topic.append(encoded(t, b))
	}
	p.topic.append(p.topic.msgs[7].Value) // a copy
	strict := ingest.DefaultConfig()
	strict.MaxLate = 4*time.Hour + 30*time.Minute
	p.start(t, strict, p.db, clock.Real()).read(t)
	want := []string{
		"0 dead late", "1 dead late", "2 dead late", "3 dead late", "4 stored ", "5 stored ", "6 stored ",
		"7 stored ", "8 stored ",
	}
	if diff := cmp.Diff(want, p.journal(t)); diff != "" {
		t.Fatalf("journal (-want +got):\n%s", diff)
	}
	if _, err := p.ledger.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, rules := range []struct {
		cfg  ingest.Config
		want ingest.Replayed
	}{
		{strict, ingest.Replayed{Messages: 9, Stored: 5, Dead: 4}},
		{ingest.DefaultConfig(), ingest.Replayed{Messages: 9, Stored: 9, Changed: 4}},
		{strict, ingest.Replayed{Messages: 9, Stored: 5, Kept: 4}},
	} {
		if diff := cmp.Diff(rules.want, p.replay(t, rules.cfg, 0)); diff != "" {
			t.Errorf("replayed with max_late %s (-want +got):\n%s", rules.cfg.MaxLate, diff)
		}
		if _, err := p.ledger.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.mustPassChecks(t)
	}
	if n := p.count(t, "holds"); n != 8 || len(p.journal(t)) != 9 {
		t.Errorf("%d rows of raw and %d of the journal, want 8 and 9", n, len(p.journal(t)))
	}
	if len(p.topic.dead) != 4 {
		t.Errorf("%d dead letters, want 4", len(p.topic.dead))
	}
	clean := newPipeline(t)
	for _, m := range p.topic.msgs {
		clean.topic.append(m.Value)
	}
	clean.drain(t)
	if diff := cmp.Diff(clean.usage(t), p.usage(t)); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

// What was dropped on purpose stays dropped, and journalled as it was (R3).
func TestReplayLeavesDroppedWeeksAlone(t *testing.T) {
	p := newPipeline(t)
	p.topic.append(fleet(t, 1, 10)...)
	p.drain(t)
	journal := p.journal(t)
	p.exec(t, `INSERT INTO raw_weeks (week, state) VALUES ('2026-03-02', 3)`)
	p.exec(t, `ALTER TABLE holds DELETE WHERE 1 SETTINGS mutations_sync = 2`)
	var log bytes.Buffer
	if sum := p.replayLogged(t, ingest.DefaultConfig(), 0, slog.New(slog.NewTextHandler(&log, nil))); sum.Kept != 10 ||
		sum.Changed != 0 {
		t.Errorf("replayed: %+v, want 10 kept", sum)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "messages=10") {
		t.Errorf("%d warnings, want one for the reason:\n%s", n, log.String())
	}
	if diff := cmp.Diff(journal, p.journal(t)); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	if n := p.count(t, "holds") + p.count(t, "late_unprocessed"); n != 0 {
		t.Errorf("%d rows of raw or late batches, want none", n)
	}
}

// crashing ends a run at the n-th insert.
type crashing struct {
	*store.DB
	at    int
	crash context.CancelFunc
}

func (c *crashing) Insert(ctx context.Context, table string, in proto.Input) error {
	if in[0].Data.Rows() == 0 {
		return nil
	}
	if c.at--; c.at < 0 {
		c.crash()
		return errors.New("killed")
	}
	return c.DB.Insert(ctx, table, in)
}

// TestReplayKilledAnywhereIsRepeated: the same replay again makes it whole.
func TestReplayKilledAnywhereIsRepeated(t *testing.T) {
	p := newPipeline(t)
	p.topic.append(fleet(t, 2, 100)...)
	p.drain(t)
	want := p.usage(t)
	for at := range 5 {
		p.exec(t, `ALTER TABLE holds DELETE WHERE node = 'n001' SETTINGS mutations_sync = 2`)
		p.exec(t, `ALTER TABLE batches DELETE WHERE offset < 7 SETTINGS mutations_sync = 2`)
		ctx, cancel := context.WithCancel(t.Context())
		db := &crashing{DB: p.db, at: at, crash: cancel}
		in, err := ingest.New(ingest.DefaultConfig(), ingest.Deps{
			Origins: &decisionstest.Open{}, DeadLetters: p.topic, Store: db, Clock: clock.Real(),
			Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Replay(ctx, &rereader{slices.Clone(p.topic.msgs)}, db, nil); err == nil {
			t.Fatalf("killed at insert %d: the replay ended without an error", at)
		}
		cancel()
		p.replay(t, ingest.DefaultConfig(), 0)
		p.ledger = newLedger(t, p.db)
		p.mustPassChecks(t)
	}
	if diff := cmp.Diff(want, p.usage(t)); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}
