package ledger_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/wire"
)

var errInjected = errors.New("injected")

// faulty is a store of which one call fails.
type faulty struct {
	*store.DB
	mu     sync.Mutex
	calls  int
	failAt int // 0: none
}

func (f *faulty) next() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls++; f.calls == f.failAt {
		return errInjected
	}
	return nil
}

func (f *faulty) Alter(ctx context.Context, table, commands string, args ...any) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.DB.Alter(ctx, table, commands, args...)
}

func (f *faulty) PartitionStates(ctx context.Context, table string) (map[string]string, error) {
	if err := f.next(); err != nil {
		return nil, err
	}
	return f.DB.PartitionStates(ctx, table)
}

func (f *faulty) Insert(ctx context.Context, table string, in proto.Input) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.DB.Insert(ctx, table, in)
}

func (f *faulty) Select(ctx context.Context, dest any, sql string, args ...any) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.DB.Select(ctx, dest, sql, args...)
}

func (f *faulty) Stream(ctx context.Context, columns proto.Results, onBlock func(rows int) error, sql string, args ...any) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.DB.Stream(ctx, columns, onBlock, sql, args...)
}

// storedHour is a row of the ledger.
func (h *house) storedHour(t *testing.T, gpu string, hour time.Time) *tables.UsageHour {
	t.Helper()
	var rows []tables.UsageHour
	if err := h.db.Select(t.Context(), &rows, `SELECT * FROM usage_hourly FINAL WHERE gpu = {gpu:String} AND hour = {hour:DateTime('UTC')}`,
		store.Named("gpu", gpu), store.Named("hour", hour)); err != nil || len(rows) != 1 {
		t.Fatalf("%d rows of GPU %s at %s, %v", len(rows), gpu, hour, err)
	}
	rows[0].Hour = rows[0].Hour.UTC()
	return &rows[0]
}

// Whatever question of the database fails, who asked is told, and the next pass gives
// the same ledger.
func TestEveryQuestionThatFailsIsTold(t *testing.T) {
	h := newHouse(t, clock.NewFake(monday.Add(200*time.Hour)))
	f := newFleet(5, 10*time.Minute, 2, 2)
	h.topic.append(t, f.hours(monday, 4)...)
	h.ingest(t)
	db := &faulty{DB: h.db}
	start := func() *ledger.Ledger {
		return h.ledger(t, db, func(c *ledger.Config) { c.RawRetention = 10 * day })
	}
	l := start()
	h.pass(t, l, 4)
	want := h.dump(t, dumpUsage)
	row := h.storedHour(t, "GPU-0000", monday.Add(time.Hour))
	ask := map[string]func(*ledger.Ledger) error{
		"pass": func(l *ledger.Ledger) error {
			h.exec(t, "TRUNCATE TABLE usage_hourly")
			_, err := l.Pass(t.Context())
			return err
		},
		"retain":    func(l *ledger.Ledger) error { _, err := l.Retain(t.Context()); return err },
		"status":    func(l *ledger.Ledger) error { _, err := l.Status(t.Context()); return err },
		"closed":    func(l *ledger.Ledger) error { _, err := l.ClosedUntil(t.Context()); return err },
		"recompute": func(*ledger.Ledger) error { _, err := ledger.RecomputeHour(t.Context(), db, row); return err },
		"retire": func(l *ledger.Ledger) error {
			_, err := l.Retire(t.Context(), ledger.Retirement{GPU: "GPU-none", At: monday, Who: "ops", Reason: "x"})
			if no := new(ledger.NotRetirable); errors.As(err, &no) {
				return nil
			}
			return err
		},
	}
	for i, c := range l.Checks() {
		ask[c.Name()] = func(l *ledger.Ledger) error { _, err := l.Checks()[i].Run(t.Context()); return err }
	}
	for _, name := range slices.Sorted(maps.Keys(ask)) {
		db.calls, db.failAt = 0, 0
		if err := ask[name](start()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all := db.calls
		for n := 1; n <= all; n++ {
			db.calls, db.failAt = 0, n
			if err := ask[name](start()); !errors.Is(err, errInjected) {
				t.Errorf("%s: of %d calls the %dth fails, and the error is %v", name, all, n, err)
			}
		}
		if all == 0 {
			t.Errorf("%s asks nothing", name)
		}
	}
	db.failAt = 0
	h.exec(t, "TRUNCATE TABLE usage_hourly")
	h.pass(t, start(), 4)
	if diff := cmp.Diff(want, h.dump(t, dumpUsage)); diff != "" {
		t.Errorf("usage after it all (-want +got):\n%s", diff)
	}
}

// What a recomputation gives is the row, and what stands behind it.
func TestRecomputingGivesTheRow(t *testing.T) {
	h := newHouse(t, clock.NewFake(monday.Add(8*time.Hour)))
	f := newFleet(1, time.Minute, 1, 0)
	batches := f.node(monday, monday.Add(3*time.Hour), "A", "B")
	for _, b := range batches {
		b.Gpus[0].Holds = append(b.Gpus[0].Holds, &wire.Hold{Leaf: "gpu", Owner: &wire.Owner{Uid: "pod", Namespace: "team", Pod: "pod"}})
	}
	h.topic.append(t, batches...)
	h.ingest(t)
	l := h.service(t, h.db, "ours")
	l.passes(t, 3)
	row := h.storedHour(t, "A", monday.Add(time.Hour))
	recompute := func() *ledger.Recomputed {
		t.Helper()
		r, err := ledger.RecomputeHour(t.Context(), h.db, row)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := recompute()
	if diff := r.Differences(row); len(diff) > 0 || r.SlotMS != 60_000 || r.Gone || len(r.Missing) > 0 || r.Mapping == nil || r.Inputs != row.Inputs {
		t.Errorf("slots of %d ms, %d inputs of %d, gone %t, missing %q, differences %q", r.SlotMS, r.Inputs, row.Inputs, r.Gone, r.Missing, diff)
	}
	if diff := cmp.Diff([]string{"node-0"}, r.Nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	var held int64
	owner := uint64(0)
	for i, p := range r.Parts {
		if i > 0 && p.StartMS < r.Parts[i-1].StartMS {
			t.Errorf("part %d at %d comes after one at %d", i, p.StartMS, r.Parts[i-1].StartMS)
		}
		if p.Owner != 0 {
			held, owner = held+p.SliceMS, p.Owner
			if leaf := r.Leaf(p.Leaf); leaf.ID != "gpu" || leaf.Slices != 7 {
				t.Errorf("leaf %+v, want gpu of 7 slices", leaf)
			}
		}
	}
	if held != 7*meter.HourMS {
		t.Errorf("%d slice-ms are held, want %d", held, 7*meter.HourMS)
	}
	if id, facts, known := r.Owner(owner); !known || id == "" || facts.Namespace != "team" {
		t.Errorf("owner %d is %q, %+v, %t", owner, id, facts, known)
	}
	if _, _, known := r.Owner(owner + 1); known {
		t.Error("an owner that nobody is, is known")
	}
	// From the slots around the hour: a day's journal, and what counts.
	if winning := len(r.Winning); winning < 60 || winning > 180 || r.Inputs < 120 {
		t.Errorf("%d winning batches, %d inputs", winning, r.Inputs)
	}
	changed := *row
	changed.Free++
	changed.Model = "x"
	if diff := r.Differences(&changed); len(diff) != 2 || !strings.Contains(diff[0], "model") || !strings.Contains(diff[1], "free") {
		t.Errorf("differences of a changed row: %q", diff)
	}
	changed.GPU, changed.Epoch = "none", 99
	if _, err := ledger.RecomputeHour(t.Context(), h.db, &changed); err == nil {
		t.Error("a GPU that no node lists is recomputed")
	}
	changed.GPU, changed.Cluster = "A", "none"
	if _, err := ledger.RecomputeHour(t.Context(), h.db, &changed); err == nil {
		t.Error("a cluster of no slots is recomputed")
	}
	changed = *row
	changed.Epoch, changed.Tenant, changed.Project = 99, []string{"theirs"}, []string{"p"}
	again, err := ledger.RecomputeHour(t.Context(), h.db, &changed)
	if err != nil || again.Mapping != nil || len(again.Differences(&changed)) > 0 {
		t.Errorf("under a mapping that is not kept: %v", err)
	}
	h.exec(t, "ALTER TABLE holds DELETE WHERE slot = '2026-03-02 01:30:00' SETTINGS mutations_sync = 2")
	if r := recompute(); len(r.Missing) != 1 || r.Again != nil || len(r.Parts) > 0 {
		t.Errorf("with a batch's raw gone: missing %q, %d parts", r.Missing, len(r.Parts))
	}
}

// Each check finds what was changed behind the ledger's back, and says how much it saw.
func TestChecksFindWhatWasChanged(t *testing.T) {
	h := newHouse(t, clock.NewFake(monday.Add(8*time.Hour)))
	h.topic.append(t, newFleet(3, 10*time.Minute, 2, 2).hours(monday, 4)...)
	h.ingest(t)
	fresh := func() *ledger.Ledger {
		h.exec(t, "TRUNCATE TABLE usage_hourly")
		l := h.ledger(t, h.db, nil)
		h.pass(t, l, 4)
		return l
	}
	results := func(l *ledger.Ledger) map[string]check.Result {
		t.Helper()
		all, err := check.Run(t.Context(), l.Checks())
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]check.Result{}
		for _, r := range all {
			out[r.Name] = r
		}
		return out
	}
	l := fresh()
	rows := int64(len(h.dump(t, `SELECT gpu AS line FROM usage_hourly FINAL WHERE present_ms > 0`)))
	for name, r := range results(l) {
		if r.Failed() || r.Checked != rows && name != "C9" || r.Checked == 0 || r.Figures == "" || r.Noted > 0 && name != "C6" ||
			strings.Contains(r.Figures, "changed meanwhile") || strings.Contains(r.Figures, "unknown capacity") {
			t.Errorf("%s of a good ledger: %+v, want %d rows", name, r, rows)
		}
	}
	for _, c := range []struct {
		change string
		fail   []string
	}{
		{"UPDATE free = free + 1 WHERE hour = '2026-03-02 01:00:00'", []string{"C6"}},
		{"UPDATE inputs = inputs + 1 WHERE hour = '2026-03-02 01:00:00'", []string{"C6"}},
		{"UPDATE model = 'x' WHERE hour = '2026-03-02 02:00:00'", []string{"C6"}},
		{"UPDATE platform_energy_mj = platform_energy_mj + 1 WHERE hour = '2026-03-02 02:00:00'", []string{"C6", "C9"}},
		{"DELETE WHERE hour = '2026-03-02 03:00:00' AND gpu = 'GPU-0001'", []string{"C6"}},
		{"UPDATE leaf = arrayConcat(leaf, leaf), profile = arrayConcat(profile, profile), profile_slices = arrayConcat(profile_slices, profile_slices), " +
			"owner = arrayConcat(owner, owner), active = arrayConcat(active, active), idle = arrayConcat(idle, idle), unproven = arrayConcat(unproven, unproven) " +
			"WHERE length(owner) > 0", []string{"C5", "C6"}},
	} {
		l := fresh()
		h.exec(t, "ALTER TABLE usage_hourly "+c.change+" SETTINGS mutations_sync = 2")
		got := results(l)
		for _, name := range c.fail {
			if r := got[name]; !r.Failed() || len(r.Findings) == 0 {
				t.Errorf("%s: %s finds nothing: %+v", c.change, name, r)
			}
		}
	}
	l = fresh()
	const one = ` FROM (SELECT * FROM usage_hourly FINAL WHERE hour = '2026-03-02 02:00:00' AND present_ms > 0 LIMIT 1)`
	h.exec(t, `INSERT INTO usage_hourly SELECT * REPLACE('ghost' AS gpu)`+one,
		`INSERT INTO usage_hourly SELECT * REPLACE('ghost' AS gpu, toDateTime('2026-03-08 02:00:00', 'UTC') AS hour)`+one)
	if r := results(l)["C6"]; len(r.Findings) != 2 || !strings.Contains(strings.Join(r.Findings, "\n"), "GPU ghost, hour 2026-03-02T02:00:00Z") ||
		!strings.Contains(strings.Join(r.Findings, "\n"), "hour 2026-03-08T02:00:00Z") {
		t.Errorf("rows of nothing: %q, want one in an hour of the journal, and one beyond it", r.Findings)
	}
	l = fresh()
	h.exec(t, `INSERT INTO usage_hourly SELECT * REPLACE('other' AS cluster)`+one)
	if r := results(l)["C5"]; !r.Failed() || r.Checked != rows+1 {
		t.Errorf("a GPU-hour in two clusters: %+v", r)
	}
	l = fresh()
	h.exec(t, "ALTER TABLE holds DELETE WHERE slot = '2026-03-02 01:30:00' SETTINGS mutations_sync = 2")
	if r := results(l)["C6"]; !r.Failed() {
		t.Errorf("raw that is gone: %+v", r)
	}
}

// The service's figures, and what it tells of how far it is.
func TestRunPassesAndCounts(t *testing.T) {
	c := clock.NewFake(monday.Add(8 * time.Hour))
	h := newHouse(t, c)
	h.topic.append(t, newFleet(1, time.Minute, 1, 0).node(monday, monday.Add(3*time.Hour), "A")...)
	h.ingest(t)
	reg := prometheus.NewRegistry()
	cfg := ledger.DefaultConfig()
	cfg.CloseAfter = time.Hour
	db := &faulty{DB: h.db, failAt: 1} // the first pass fails, and is tried again
	l, err := ledger.New(cfg, ledger.Deps{Store: db, Clock: c, Log: discard, Registry: reg})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	count := func(name string) float64 {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == name && len(f.GetMetric()) > 0 {
				m := f.GetMetric()[0]
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		return -1
	}
	// After one that fails, one over all hours, and one over the recent ones.
	for _, rest := range []time.Duration{cfg.Interval, cfg.Interval, 10 * time.Minute} {
		if err := c.BlockUntil(ctx, 1); err != nil {
			t.Fatal(err)
		}
		c.Advance(rest)
	}
	if err := c.BlockUntil(ctx, 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run whose context ended: %v", err)
	}
	for name, want := range map[string]float64{
		"gputally_ledger_errors_total":                1,
		"gputally_ledger_pass_seconds":                3,
		"gputally_ledger_hours_computed_total":        3,
		"gputally_ledger_dirty_hours":                 0,
		"gputally_ledger_stale_hours":                 0,
		"gputally_ledger_hours_refused_total":         0,
		"gputally_ledger_watermark_timestamp_seconds": float64(monday.Add(3 * time.Hour).Unix()),
		"gputally_ledger_closed_timestamp_seconds":    float64(monday.Add(7 * time.Hour).Unix()),
	} {
		if got := count(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if last := count("gputally_ledger_last_pass_timestamp_seconds"); last < float64(monday.Add(8*time.Hour).Unix()) {
		t.Errorf("the last pass ended at %v", last)
	}
	status, err := l.Status(t.Context())
	want := []ledger.Watermark{{
		Cluster: "c", SlotMS: 60_000, WatermarkMS: monday.Add(3 * time.Hour).UnixMilli(), Hours: 3, ClosedUntil: monday.Add(7 * time.Hour),
	}}
	if len(status) == 1 {
		want[0].Hours = status[0].Hours
	}
	if diff := cmp.Diff(want, status); err != nil || diff != "" {
		t.Errorf("status, %v (-want +got):\n%s", err, diff)
	}
}
