package ledger_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/clock"
)

const selectRowsPerHour = `SELECT toString(intDiv(count(), uniqExact(toStartOfHour(slot)))) AS line FROM holds FINAL`

// Two retirements of GPUs that are listed right after.
const insertRetirements = `
INSERT INTO retirements (cluster, gpu, at, who, reason, recorded_at)
VALUES ('c', 'GPU-0003', '2026-03-02 01:30:00', 'ops', 'x', '2026-03-03 00:00:00'), ('c', 'GPU-0013', '2026-03-02 04:00:00', 'ops', 'x', '2026-03-03 00:00:00')`

// asked is into how many parts the widest reading of raw split the GPUs, and
// how many readings there were.
func (w *watched) asked() (parts uint64, readings int) {
	for _, s := range w.streams {
		if of, ok := s["parts"].(uint64); ok {
			parts, readings = max(parts, of), readings+1
		}
	}
	return parts, readings
}

func bounded(rows uint64) func(*ledger.Config) {
	return func(c *ledger.Config) { c.MaxRowsInMemory = rows }
}

// TestAnyBoundGivesTheSameLedger: the hours of a random fleet come to the same
// rows, byte for byte, whether all are computed at once, or an hour, or an hour
// in parts; verify finds the same.
func TestAnyBoundGivesTheSameLedger(t *testing.T) {
	const hours = 10
	seeds := uint64(2)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			h := newHouse(t, clock.NewFake(monday.Add(48*time.Hour)))
			h.topic.append(t, newFleet(seed, time.Minute, 3, 6).hours(monday.Add(-time.Hour), hours)...)
			h.ingest(t)
			h.exec(t, insertRetirements)
			var rows uint64
			if _, err := fmt.Sscan(h.dump(t, selectRowsPerHour)[0], &rows); err != nil || rows < 1000 {
				t.Fatalf("%d rows per hour, %v; want 1000 or more", rows, err)
			}
			var usage, sightings []string
			for _, c := range []struct {
				name      string
				bound     uint64
				partsFrom uint64
				partsTo   uint64
			}{
				{"all at once", 100 * rows, 1, 1},
				{"some hours at once", 5 * rows, 1, 1},
				{"an hour at once", rows * 3 / 2, 1, 1},
				{"an hour in two parts", rows * 2 / 3, 2, 3},
				{"an hour in seven parts", rows * 2 / 13, 7, 9},
			} {
				h.exec(t, "TRUNCATE TABLE usage_hourly", "TRUNCATE TABLE sightings")
				s := &watched{DB: h.db}
				l := h.ledger(t, s, bounded(c.bound))
				if n, err := l.Pass(t.Context()); err != nil || n != hours {
					t.Fatalf("%s: %d hours, %v; want %d", c.name, n, err, hours)
				}
				if parts, _ := s.asked(); parts < c.partsFrom || parts > c.partsTo {
					t.Errorf("%s: GPUs in %d parts, want %d to %d", c.name, parts, c.partsFrom, c.partsTo)
				}
				gotUsage, gotSightings := h.dump(t, dumpUsage), h.dump(t, dumpSightings)
				if usage == nil {
					usage, sightings = gotUsage, gotSightings
				}
				if diff := cmp.Diff(usage, gotUsage); diff != "" || len(usage) < 18*hours {
					t.Errorf("%s: usage of %d GPU-hours differs (-want +got):\n%s", c.name, len(usage), diff)
				}
				if diff := cmp.Diff(sightings, gotSightings); diff != "" {
					t.Errorf("%s: sightings differ (-want +got):\n%s", c.name, diff)
				}
				if c.partsFrom == 7 {
					verified(t, c.name, l)
				}
			}
		})
	}
}

// verified holds the ledger's own checks.
func verified(t testing.TB, name string, l *ledger.Ledger) {
	t.Helper()
	results, err := check.Run(t.Context(), l.Checks())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if !r.OK || r.Checked == 0 {
			t.Errorf("%s: %s is not ok after %d: %v", name, r.Name, r.Checked, r.Findings)
		}
	}
}

// TestMissingRawIsFoundInAnyPart: a batch that lacks one row of many is named,
// with the same counts, however its GPUs are split.
func TestMissingRawIsFoundInAnyPart(t *testing.T) {
	h := newHouse(t, clock.NewFake(monday.Add(48*time.Hour)))
	h.topic.append(t, newFleet(3, time.Minute, 4, 9).hours(monday, 2)...)
	h.ingest(t)
	h.exec(t, `ALTER TABLE holds DELETE WHERE gpu = 'GPU-0010' AND slot = toDateTime('2026-03-02 00:20:00', 'UTC') SETTINGS mutations_sync = 1`)
	var want string
	for _, bound := range []uint64{1 << 30, 500} {
		_, err := h.ledger(t, h.db, bounded(bound)).Pass(t.Context())
		var refused *ledger.Refused
		if !errors.As(err, &refused) || len(refused.Missing) != 1 || !refused.From.Equal(monday) {
			t.Fatalf("bound %d: got %v, want the one damaged hour refused", bound, err)
		}
		if want == "" {
			want = refused.Missing[0]
		}
		if refused.Missing[0] != want {
			t.Errorf("bound %d: missing %q, want %q", bound, refused.Missing[0], want)
		}
	}
}

// TestWeeksThatStandStillAreNotReadAgain: a look at all hours leaves out
// partitions made of the same parts, and sees what comes into an old one.
func TestWeeksThatStandStillAreNotReadAgain(t *testing.T) {
	h := newHouse(t, clock.NewFake(monday.Add(48*time.Hour)))
	f := newFleet(5, time.Minute, 1, 2)
	h.topic.append(t, f.hours(monday.Add(-14*24*time.Hour), 2)...)
	h.topic.append(t, f.hours(monday, 2)...)
	h.ingest(t)
	s := &watched{DB: h.db}
	l := h.ledger(t, s, nil)
	pass := func(want int) (known [][]string) {
		t.Helper()
		s.selects = nil
		if n, err := l.Pass(t.Context()); err != nil || n != want {
			t.Fatalf("pass: %d hours, %v; want %d", n, err, want)
		}
		for _, p := range s.selects {
			if k, ok := p["known"].([]string); ok {
				known = append(known, k)
			}
		}
		return known
	}
	// Two hours, the day of silence after them, and the later two. The hour before
	// these, which their first slots reach back to, has no GPU.
	pass(26 + 2)
	pass(0)
	weeks, months := []string{"20260216", "20260302"}, []string{"202602", "202603"}
	if diff := cmp.Diff([][]string{weeks, months}, pass(0)); diff != "" {
		t.Errorf("partitions of journal and ledger left out (-want +got):\n%s", diff)
	}
	late := f.batch(0, monday.Add(-14*24*time.Hour+30*time.Minute).UnixMilli())
	h.topic.append(t, late)
	h.ingest(t)
	if diff := cmp.Diff([][]string{weeks[1:], months}, pass(25)); diff != "" {
		t.Errorf("after late data, partitions left out (-want +got):\n%s", diff)
	}
}
