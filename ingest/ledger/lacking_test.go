package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/clock"
)

// TestM1RowsThatAreGoneAreComputedAnew: an hour of which somebody deleted rows is
// open, so that nobody bills it, until a pass has brought them back.
func TestM1RowsThatAreGoneAreComputedAnew(t *testing.T) {
	h := newHouse(t, clock.NewFake(monday.Add(8*time.Hour)))
	f := newFleet(1, time.Minute, 1, 0)
	h.topic.append(t, f.node(monday, monday.Add(3*time.Hour), "A", "B")...)
	h.ingest(t)
	start := func() *ledger.Ledger {
		return h.ledger(t, h.db, func(c *ledger.Config) { c.CloseAfter = time.Hour })
	}
	running := start()
	if _, err := running.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	closed := func(l *ledger.Ledger, want time.Time) {
		t.Helper()
		if got, err := l.ClosedUntil(t.Context()); err != nil || !got["c"].Equal(want) {
			t.Errorf("closed until %v, %v; want %s", got, err, want)
		}
	}
	end := monday.Add(7 * time.Hour)
	closed(running, end)
	before := h.dump(t, dumpUsage)
	for name, of := range map[string]string{
		"a GPU's hour":   "gpu = 'B' AND hour = '2026-03-02 01:00:00'",
		"a node's hours": "node = 'node-0' AND gpu != 'A'",
	} {
		for _, l := range []*ledger.Ledger{running, start()} {
			h.exec(t, "ALTER TABLE usage_hourly DELETE WHERE "+of+" SETTINGS mutations_sync = 2")
			if diff := cmp.Diff(before, h.dump(t, dumpUsage)); diff == "" {
				t.Fatalf("%s: nothing was deleted", name)
			}
			if got, err := l.ClosedUntil(t.Context()); err != nil || !got["c"].Before(monday.Add(2*time.Hour)) {
				t.Errorf("%s is gone: closed until %v, %v", name, got, err)
			}
			if n, err := l.Pass(t.Context()); err != nil || n == 0 {
				t.Errorf("%s is gone: pass of %d hours, %v", name, n, err)
			}
			if diff := cmp.Diff(before, h.dump(t, dumpUsage)); diff != "" {
				t.Errorf("%s is gone: usage after a pass (-want +got):\n%s", name, diff)
			}
			closed(l, end)
		}
	}
}
