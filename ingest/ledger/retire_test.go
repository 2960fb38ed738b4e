package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

// board is a whole GPU of seven slices, with nobody on it.
func boards(ids ...string) (out []*wire.Gpu) {
	for _, id := range ids {
		out = append(out, &wire.Gpu{Uuid: id, Model: "NVIDIA H100 80GB HBM3", Slices: 7, Leaves: []*wire.Leaf{{Id: "gpu", Slices: 7}}})
	}
	return out
}

// node makes a node's batches, in slots of a minute, that list the GPUs.
func (f *fleet) node(from, to time.Time, ids ...string) (out []*wire.Batch) {
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		b := f.batch(0, at.UnixMilli())
		b.Attribution, b.Observed, b.Gpus = wire.Attribution_ATTRIBUTION_OK, nil, boards(ids...)
		out = append(out, b)
	}
	return out
}

const dumpMinutes = `
SELECT concat(toString(dateDiff('hour', toDateTime('2026-03-02 00:00:00', 'UTC'), hour)), 'h ', gpu, ' present ', toString(present_ms / 60000),
              ' free ', toString(free / 420000), ' unhealthy ', toString(unhealthy / 420000), ' unobserved ', toString(unobserved / 420000)) AS line
FROM usage_hourly FINAL WHERE present_ms > 0 AND gpu = 'B' ORDER BY hour`

// Without the empty rows that stand for those of before.
const dumpPresent = `SELECT formatRowNoNewline('TSV', * EXCEPT hour_rows) AS line FROM usage_hourly FINAL WHERE present_ms > 0 ORDER BY cluster, hour, gpu`

// TestARetiredGPUIsNoLongerCounted: B is listed until 1:30, is missing from
// then on, is retired at 2:20, and comes back at 5:10.
func TestARetiredGPUIsNoLongerCounted(t *testing.T) {
	h := newHouse(t, clock.NewFake(monday.Add(8*time.Hour)))
	f := newFleet(1, time.Minute, 1, 0)
	h.topic.append(t, f.node(monday, monday.Add(90*time.Minute), "A", "B")...)
	h.topic.append(t, f.node(monday.Add(90*time.Minute), monday.Add(310*time.Minute), "A")...)
	h.topic.append(t, f.node(monday.Add(310*time.Minute), monday.Add(7*time.Hour), "A", "B")...)
	h.ingest(t)
	l := h.ledger(t, h.db, nil)
	h.pass(t, l, 7)
	full, lost := "present 60 free 60 unhealthy 0 unobserved 0", "present 60 free 0 unhealthy 60 unobserved 0"
	h.want(t, "B before", dumpMinutes, "0h B "+full, "1h B present 60 free 30 unhealthy 30 unobserved 0", "2h B "+lost, "3h B "+lost, "4h B "+lost, "5h B present 60 free 50 unhealthy 10 unobserved 0", "6h B "+full)

	at, err := l.Retire(t.Context(), ledger.Retirement{GPU: "B", At: monday.Add(140*time.Minute + 30*time.Second), Who: "ops", Reason: "swapped"})
	var no *ledger.NotRetirable
	if !errors.As(err, &no) || !strings.Contains(err.Error(), "until 2026-03-02T07:00:00Z") {
		t.Fatalf("retired at %s, %v; want it refused: B is listed later", at, err)
	}
	// It was retired before it came back.
	h.exec(t, `INSERT INTO retirements (cluster, gpu, at, who, reason, recorded_at) VALUES ('c', 'B', '2026-03-02 02:20:30', 'ops', 'swapped', '2026-03-02 02:30:00')`)
	h.pass(t, l, 5)
	h.pass(t, l, 0)
	after := []string{"0h B " + full, "1h B present 60 free 30 unhealthy 30 unobserved 0", "2h B present 20 free 0 unhealthy 20 unobserved 0", "5h B present 50 free 50 unhealthy 0 unobserved 0", "6h B " + full}
	h.want(t, "B after", dumpMinutes, after...)
	verified(t, "after", l)

	// The same rows come out when every hour is computed by itself, in parts.
	usage, sightings := h.dump(t, dumpPresent), h.dump(t, dumpSightings)
	h.exec(t, "TRUNCATE TABLE usage_hourly", "TRUNCATE TABLE sightings")
	h.pass(t, h.ledger(t, h.db, bounded(100)), 7)
	if diff := cmp.Diff(usage, h.dump(t, dumpPresent)); diff != "" {
		t.Errorf("usage, hour by hour (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(sightings, h.dump(t, dumpSightings)); diff != "" {
		t.Errorf("sightings, hour by hour (-want +got):\n%s", diff)
	}
}

// TestRetiredAndBackWithinTheHour: the part in between is not capacity.
func TestRetiredAndBackWithinTheHour(t *testing.T) {
	h := newHouse(t, clock.NewFake(monday.Add(8*time.Hour)))
	f := newFleet(1, time.Minute, 1, 0)
	h.topic.append(t, f.node(monday, monday.Add(10*time.Minute), "A", "B")...)
	h.topic.append(t, f.node(monday.Add(10*time.Minute), monday.Add(40*time.Minute), "A")...)
	h.topic.append(t, f.node(monday.Add(40*time.Minute), monday.Add(2*time.Hour), "A", "B")...)
	h.ingest(t)
	h.exec(t, `INSERT INTO retirements (cluster, gpu, at, who, reason, recorded_at) VALUES ('c', 'B', '2026-03-02 00:15:00', 'ops', 'swapped', '2026-03-02 02:30:00')`)
	l := h.ledger(t, h.db, nil)
	h.pass(t, l, 2)
	h.want(t, "B", dumpMinutes, "0h B present 35 free 30 unhealthy 5 unobserved 0", "1h B present 60 free 60 unhealthy 0 unobserved 0")
	verified(t, "within the hour", l)
}

// TestWhoCanBeRetired: a GPU that is silent, from then on, for a reason.
func TestWhoCanBeRetired(t *testing.T) {
	c := clock.NewFake(monday.Add(4 * time.Hour))
	h := newHouse(t, c)
	f := newFleet(1, time.Minute, 1, 0)
	h.topic.append(t, f.node(monday, monday.Add(time.Hour), "A", "B")...)
	h.topic.append(t, f.node(monday.Add(time.Hour), monday.Add(3*time.Hour), "A")...)
	h.ingest(t)
	l := h.ledger(t, h.db, nil)
	h.pass(t, l, 3)
	ask := func(gpu string, at time.Duration, reason string) string {
		_, err := l.Retire(t.Context(), ledger.Retirement{GPU: gpu, At: monday.Add(at), Who: "ops", Reason: reason})
		return fmt.Sprint(err)
	}
	for _, c := range []struct {
		gpu, reason string
		at          time.Duration
		want        string
	}{
		{"C", "x", time.Hour, `retire GPU "C": the inventory has no such GPU (it lists 2 GPUs)`},
		{"B", "", time.Hour, `who "ops" and reason "": both must be given`},
		{"B", "x", 59 * time.Minute, "until 2026-03-02T01:00:00Z"},
		{"B", "x", 5 * time.Hour, "must not be in the future (now 2026-03-02T04:00:00Z)"},
		{"B", "swapped", 2*time.Hour + 59*time.Second, "<nil>"},
		{"B", "again", 3 * time.Hour, "left the inventory at 2026-03-02T02:00:00Z already"},
	} {
		if got := ask(c.gpu, c.at, c.reason); !strings.Contains(got, c.want) {
			t.Errorf("retire %s at %s: got %q, want %q", c.gpu, c.at, got, c.want)
		}
	}
	h.pass(t, l, 1)
	h.exec(t, `INSERT INTO sightings (cluster, hour, gpu, node, first_ms, last_ms, slices_last, kind_last, version) VALUES
		('c', '2026-03-02 02:00:00', 'declared', 'p', 0, 1772416800000, 1000000, 1, 1), ('c', '2026-03-02 02:00:00', 'open', 'p', 0, 1772416800000, 70000, 2, 1)`)
	all, err := l.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range all {
		got = append(got, fmt.Sprintf("%s %s %d %v %q %s", b.GPU, b.Node, b.Slices, b.Present, b.Reason, time.UnixMilli(b.LeavesMS).UTC().Format(time.DateTime)))
	}
	want := []string{
		`A node-0 7 true "" 2026-03-03 03:00:00`, `B node-0 7 false "swapped" 2026-03-02 02:00:00`,
		`declared p 1000000 true "" 2026-03-03 02:00:00`, `open p 70000 false "" 2026-03-02 02:00:00`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
}

// TestHoursWithoutAnyGPUAreKnownToEveryProcess: once the last GPU is retired,
// the hours after it have no capacity; they are computed once, and close, also
// for a process that didn't compute them (R3).
func TestHoursWithoutAnyGPUAreKnownToEveryProcess(t *testing.T) {
	h := newHouse(t, clock.NewFake(monday.Add(100*time.Hour)))
	f := newFleet(1, time.Minute, 1, 0)
	h.topic.append(t, f.node(monday, monday.Add(time.Hour), "B")...)
	h.topic.append(t, f.node(monday.Add(time.Hour), monday.Add(6*time.Hour))...)
	h.ingest(t)
	h.exec(t, `INSERT INTO retirements (cluster, gpu, at, who, reason, recorded_at) VALUES ('c', 'B', '2026-03-02 01:20:00', 'ops', 'sold', '2026-03-02 06:00:00')`)
	l := h.ledger(t, h.db, nil)
	h.pass(t, l, 6)
	h.pass(t, l, 0)
	another := h.ledger(t, h.db, nil)
	closed, err := another.ClosedUntil(t.Context())
	if want := monday.Add(28 * time.Hour); err != nil || !closed["c"].Equal(want) {
		t.Errorf("another process has closed until %v, %v; want %s", closed, err, want)
	}
	h.pass(t, another, 0)
	h.want(t, "B", dumpMinutes, "0h B present 60 free 60 unhealthy 0 unobserved 0", "1h B present 20 free 0 unhealthy 20 unobserved 0")
	verified(t, "another process", another)

	// A GPU that comes late for such an hour is counted in it, and in those after.
	h.topic.append(t, f.node(monday.Add(3*time.Hour), monday.Add(4*time.Hour), "B")...)
	h.ingest(t)
	h.pass(t, another, 4)
	h.pass(t, h.ledger(t, h.db, nil), 0)
	verified(t, "after the late ones", another)
}
