package ledger_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/clock"
)

const (
	day = 24 * time.Hour

	dumpWeeks   = `SELECT concat(toString(week), ' ', toString(state)) AS line FROM raw_weeks FINAL ORDER BY week`
	dumpRaw     = `SELECT concat(toString(toMonday(slot)), ' ', toString(count() > 0)) AS line FROM holds GROUP BY toMonday(slot) ORDER BY line`
	dumpSamples = `SELECT concat(toString(toMonday(slot)), ' ', toString(count() > 0)) AS line FROM samples GROUP BY toMonday(slot) ORDER BY line`
	dumpJournal = `SELECT concat(toString(status), ' ', reason, ' ', toString(count())) AS line FROM batches FINAL GROUP BY status, reason ORDER BY line`
)

// kept is a house with 15 days of a small fleet, on the day before the first
// week's raw may go.
func kept(t *testing.T) (*house, *fleet, *clock.Fake) {
	t.Helper()
	c := clock.NewFake(monday.Add(16 * day))
	h, f := newHouse(t, c), newFleet(11, 20*time.Minute, 1, 3)
	h.topic.append(t, f.hours(monday, 15*24)...)
	h.ingest(t)
	h.pass(t, h.retaining(t, h.db), 15*24)
	return h, f, c
}

func (h *house) retaining(t testing.TB, s ledger.Store) *ledger.Ledger {
	t.Helper()
	return h.ledger(t, s, func(c *ledger.Config) { c.RawRetention = 10 * day })
}

func (h *house) pass(t testing.TB, l *ledger.Ledger, want int) {
	t.Helper()
	if n, err := l.Pass(t.Context()); err != nil || n != want {
		t.Fatalf("pass: %d hours, %v; want %d", n, err, want)
	}
}

func retain(t testing.TB, l *ledger.Ledger, want int) {
	t.Helper()
	if n, err := l.Retain(t.Context()); err != nil || n != want {
		t.Fatalf("retain: %d weeks dropped, %v; want %d", n, err, want)
	}
}

func (h *house) want(t testing.TB, what, sql string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, h.dump(t, sql), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// c6 is the ledger's check of conservation.
func c6(t testing.TB, l *ledger.Ledger) check.Result {
	t.Helper()
	results, err := check.Run(t.Context(), l.Checks())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Name == "C6" {
			return r
		}
	}
	t.Fatal("no C6 among the checks")
	return check.Result{}
}

// TestRawGoesAfterItsRetentionAndUsageStays: a week is sealed, then dropped;
// its usage stays, what comes late for it waits whole, and verify says so.
func TestRawGoesAfterItsRetentionAndUsageStays(t *testing.T) {
	h, f, c := kept(t)
	l := h.retaining(t, h.db)
	retain(t, l, 0)
	h.want(t, "weeks before the retention has passed", dumpWeeks)
	before := h.dump(t, dumpUsage)

	c.Set(monday.Add(17 * day))
	retain(t, l, 0)
	h.want(t, "weeks once it has", dumpWeeks, "2026-03-02 1")
	late := f.batch(0, monday.Add(30*time.Hour).UnixMilli())
	h.topic.append(t, late)
	h.ingest(t)
	h.want(t, "journal", dumpJournal, "late raw_dropped 1", "stored  "+h.stored(t))
	h.pass(t, l, 0)
	c.Advance(9 * time.Minute)
	retain(t, l, 0)
	c.Advance(time.Minute)
	retain(t, l, 1)
	retain(t, l, 0)

	h.want(t, "weeks after the drop", dumpWeeks, "2026-03-02 3")
	h.want(t, "holds", dumpRaw, "2026-03-09 1", "2026-03-16 1")
	h.want(t, "samples", dumpSamples, "2026-03-09 1", "2026-03-16 1")
	h.pass(t, h.retaining(t, h.db), 0)
	if diff := cmp.Diff(before, h.dump(t, dumpUsage)); diff != "" {
		t.Errorf("usage after the drop (-want +got):\n%s", diff)
	}
	body := h.topic.msgs[len(h.topic.msgs)-1].Value
	if diff := cmp.Diff([]string{string(body)}, h.dump(t, `SELECT body AS line FROM late_unprocessed FINAL`)); diff != "" {
		t.Errorf("late batch (-want +got):\n%s", diff)
	}
	verified(t, "after the drop", l)
	if c3 := h.journalHolds(t); !strings.Contains(c3, "1 late: they are kept") || !strings.Contains(c3,
		"without 1 week whose raw was dropped") {
		t.Errorf("C3 says %q, want the late batch and the week without raw", c3)
	}
	if res := c6(t, l); !strings.Contains(res.Figures, "169 cluster-hours of 1 week;") || !strings.Contains(res.Figures,
		"stay as published: 0") {
		t.Errorf("C6 says %q, want the 169 hours that rest on the week", res.Figures)
	}
}

// journalHolds carries out ingest's own checks, and gives C3's figures.
func (h *house) journalHolds(t testing.TB) (figures string) {
	t.Helper()
	results, err := check.Run(t.Context(), ingest.Checks(ingest.CheckDeps{
		Store: h.db,
		Offsets: func(context.Context) ([]broker.PartitionOffsets, error) {
			return []broker.PartitionOffsets{{Committed: int64(h.topic.committed)}}, nil
		},
		Spools: func(context.Context) ([]ingest.SpoolState, error) { return nil, nil },
	}))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Failed() {
			t.Errorf("%s failed: %v", r.Name, r.Findings)
		}
		if r.Name == "C3" {
			figures = r.Figures
		}
	}
	return figures
}

func (h *house) stored(t testing.TB) string {
	t.Helper()
	return h.dump(t, `SELECT toString(count()) AS line FROM batches FINAL WHERE status = 'stored'`)[0]
}

// TestDroppedWeeksAreNeverRecomputed: a new mapping republishes the hours that
// have their raw, and counts the others.
func TestDroppedWeeksAreNeverRecomputed(t *testing.T) {
	h, _, c := kept(t)
	l := h.retaining(t, h.db)
	c.Set(monday.Add(17 * day))
	retain(t, l, 0)
	c.Advance(time.Hour)
	retain(t, l, 1)
	firstWeek := `SELECT formatRowNoNewline('TSV', *) AS line FROM usage_hourly FINAL WHERE hour < '2026-03-09 01:00:00' ORDER BY cluster, hour, gpu`
	before := h.dump(t, firstWeek)
	tenants := filepath.Join(t.TempDir(), "tenants.yaml")
	if err := os.WriteFile(tenants, []byte("versions:\n- effective: 2026-01-01T00:00:00Z\n  rules:\n  - {match: "+
		"{namespace: team-*}, tenant: acme}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mapped := h.ledger(t, h.db, func(c *ledger.Config) { c.TenantsFile = tenants })
	h.pass(t, mapped, 15*24-169)
	if diff := cmp.Diff(before, h.dump(t, firstWeek)); diff != "" {
		t.Errorf("rows without raw (-want +got):\n%s", diff)
	}
	status, err := mapped.Status(t.Context())
	if err != nil || len(status) != 1 || status[0].StaleHours != 169 || status[0].DirtyHours != 0 {
		t.Errorf("status %+v, %v; want 169 stale hours and none dirty", status, err)
	}
	closed, err := mapped.ClosedUntil(t.Context())
	if diff := cmp.Diff(map[string]time.Time{"c": monday.Add(14*day + time.Hour)}, closed); err != nil || diff != "" {
		t.Errorf("closed until, %v (-want +got):\n%s", err, diff)
	}
	verified(t, "under a new mapping", mapped)
	h.exec(t, `ALTER TABLE usage_hourly UPDATE node = 'elsewhere' WHERE hour = '2026-03-04 05:00:00' SETTINGS mutations_sync = 1`)
	if res := c6(t, mapped); res.OK || !strings.Contains(strings.Join(res.Findings, "\n"), "week 2026-03-02") {
		t.Errorf("C6 over a changed row without raw: ok %v, %v; want the week named", res.OK, res.Findings)
	}
}

// brittle fails to alter a table.
type brittle struct {
	ledger.Store
	table string
}

func (b *brittle) Alter(ctx context.Context, table, commands string, args ...any) error {
	if table == b.table {
		return errors.New("pulled the plug")
	}
	return b.Store.Alter(ctx, table, commands, args...)
}

// TestAnInterruptedDropIsFinished by whoever comes next, also without a
// retention configured.
func TestAnInterruptedDropIsFinished(t *testing.T) {
	h, _, c := kept(t)
	l := h.retaining(t, &brittle{h.db, "samples"})
	c.Set(monday.Add(17 * day))
	retain(t, l, 0)
	c.Advance(time.Hour)
	if _, err := l.Retain(t.Context()); err == nil || !strings.Contains(err.Error(), "2026-03-02") {
		t.Fatalf("got %v, want the week whose drop failed", err)
	}
	h.want(t, "weeks in between", dumpWeeks, "2026-03-02 2")
	verified(t, "in between", h.ledger(t, h.db, nil))
	retain(t, h.ledger(t, h.db, nil), 1)
	h.want(t, "weeks in the end", dumpWeeks, "2026-03-02 3")
	h.want(t, "samples", dumpSamples, "2026-03-09 1", "2026-03-16 1")
}

// TestRawThatAnHourNeedsIsKept: an hour that isn't clean keeps its week.
func TestRawThatAnHourNeedsIsKept(t *testing.T) {
	h, f, c := kept(t)
	h.topic.append(t, f.batch(0, monday.Add(30*time.Hour).UnixMilli()))
	h.ingest(t)
	l := h.retaining(t, h.db)
	c.Set(monday.Add(17 * day))
	retain(t, l, 0)
	h.want(t, "weeks with a dirty hour", dumpWeeks)
	h.pass(t, l, 26) // its first slot is an input of the hour before, too
	retain(t, l, 0)
	h.want(t, "weeks once it is clean", dumpWeeks, "2026-03-02 1")
}
