package analyzer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/analyzer"
	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
)

func find(t *testing.T, db *store.DB, from, to time.Time) []episode.Episode {
	t.Helper()
	found, err := analyzer.Find(t.Context(), db, analyzer.DefaultConfig(), rates{}, from, to)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// ofKind are the findings of a kind, or of all others.
func ofKind(found []episode.Episode, kind episode.Kind, is bool) []episode.Episode {
	return slices.DeleteFunc(slices.Clone(found), func(e episode.Episode) bool { return (e.Kind == kind) != is })
}

// move gives the rows of some GPUs another node.
func move(t *testing.T, db *store.DB, gpu, node string) {
	t.Helper()
	if err := db.Exec(t.Context(), `
INSERT INTO usage_hourly SELECT * REPLACE ({node:String} AS node, version + 1 AS version) FROM usage_hourly FINAL
WHERE gpu = {gpu:String}`,
		store.Named("gpu", gpu), store.Named("node", node)); err != nil {
		t.Fatal(err)
	}
}

// outageFleet writes four weeks of four nodes: three tenants in office hours, and free GPUs. One tenant rests for an
// afternoon each Monday; one works on two GPUs for an hour of the first Sundays, and on six for three of the third.
// blank blots out hours.
func outageFleet(t *testing.T, blank func(pattern []byte)) *store.DB {
	t.Helper()
	db := storetest.Open(t)
	for i, tenant := range []string{"ml", "nlp", "vision", "nobody"} {
		for k := range 6 {
			p := []byte(office())
			switch tenant {
			case "ml":
				for _, day := range []int{6, 13} {
					copy(p[day*24+2:], "aaffff"[k:k+1])
				}
				copy(p[20*24+2:], "aaa")
			case "nlp":
				for week := range 4 {
					copy(p[week*7*24+13:], "iiii")
				}
			case "nobody":
				p = []byte(strings.Repeat("f", 28*24))
			}
			blank(p)
			uuid := fmt.Sprintf("GPU-%d%d", i, k)
			write(t, db, gpu{uuid, tenant, monday, string(p), 1})
			move(t, db, uuid, fmt.Sprintf("n%d", i))
		}
	}
	return db
}

// TestATwoDayOutageIsOneFindingAndChangesNoOther: of the cluster, without a tenant; idle time and spikes of other
// hours, with what was expected, are those of the same weeks without it. The ledger has no rows after a day of silence.
func TestATwoDayOutageIsOneFindingAndChangesNoOther(t *testing.T) {
	from, to := monday.AddDate(0, 0, 13), monday.AddDate(0, 0, 15)
	want := find(t, outageFleet(t, func([]byte) {}), monday, monday.AddDate(0, 0, 28))
	got := find(t, outageFleet(t, func(p []byte) {
		copy(p[13*24:], strings.Repeat("x", 24)+strings.Repeat(".", 24))
	}), monday, monday.AddDate(0, 0, 28))

	outage := ofKind(got, episode.Unobserved, true)
	top := slices.DeleteFunc(slices.Clone(outage), func(e episode.Episode) bool { return e.Parent != "" })
	if len(top) != 1 || len(outage) != 5 {
		t.Fatalf("%d findings of the outage, %d of them not within another; want 5 and 1", len(outage), len(top))
	}
	if e := top[0]; !e.Start.Equal(from) || !e.End.Equal(from.AddDate(0, 0, 1)) || e.Cluster != "c" || e.Node != "" ||
		e.Observed != 24*24 || e.Severity != episode.High || e.Alerted.IsZero() {
		t.Errorf("the outage: %+v, want all of the cluster for the day that the ledger has, 576 GPU-hours, high, an alert", e)
	}
	for _, e := range outage {
		if e.Tenant+e.Project+e.User+e.Workload+e.Currency != "" || e.Grade != episode.None || !e.WastedGPUHours.IsZero() ||
			!e.WastedCost.IsZero() {
			t.Errorf("finding %s: %+v: want no tenant, no wasted time, no cost", e.Evidence, e)
		}
		if e.Parent != "" && (e.Parent != top[0].ID() || e.Node == "" || !e.Alerted.IsZero()) {
			t.Errorf("finding of node %q has parent %q, alert %s; want the outage, and none", e.Node, e.Parent, e.Alerted)
		}
	}
	others := ofKind(got, episode.Unobserved, false)
	if spikes := ofKind(others, episode.OffHoursSpike, true); len(spikes) != 1 || spikes[0].Expected != 4 {
		t.Fatalf("spikes: %+v, want that of the third Sunday, 4 GPU-hours expected", spikes)
	}
	outside := func(found []episode.Episode) (out []string) {
		for _, e := range found {
			if !e.Overlaps(from, to) {
				out = append(out, fmt.Sprintln(e.ID(), e.Kind, e.Start, e.End, e.WastedGPUHours, e.WastedCost, e.Observed,
					e.Expected))
			}
		}
		return out
	}
	if diff := cmp.Diff(outside(want), outside(others)); diff != "" {
		t.Errorf("other findings (-without the outage +with it):\n%s", diff)
	}
}

// TestASilentNodeIsItsOwnFinding, with the same id whatever the range; while it goes on it is open.
func TestASilentNodeIsItsOwnFinding(t *testing.T) {
	db := storetest.Open(t)
	write(t, db, gpu{"GPU-1", "ml", monday, "aaaaxxxxxx", 1})
	write(t, db, gpu{"GPU-2", "ml", monday, "aaaaaaaaaa", 1})
	write(t, db, gpu{"GPU-3", "", monday, "xxxxxxxxxx", 1}) // never observed: known from records alone
	move(t, db, "GPU-2", "n2")
	move(t, db, "GPU-3", "n3")
	var ids []string
	for _, hour := range []int{0, 5} {
		all := find(t, db, monday.Add(time.Duration(hour)*time.Hour), monday.Add(8*time.Hour))
		got := ofKind(all, episode.Unobserved, true)
		if len(got) != 1 || got[0].Node != "n1" || got[0].Cause != "silent" || !got[0].Open || got[0].Observed != 6 ||
			!got[0].Start.Equal(monday.Add(4*time.Hour)) {
			t.Fatalf("from hour %d: %+v, want node n1 from hour 4 on, open", hour, got)
		}
		ids = append(ids, got[0].ID())
	}
	if ids[0] != ids[1] {
		t.Errorf("ids %v, want one", ids)
	}
}

// TestUnreadableOwnersAreAnotherCause than silence.
func TestUnreadableOwnersAreAnotherCause(t *testing.T) {
	db := storetest.Open(t)
	write(t, db, gpu{"GPU-1", "ml", monday, "aaaaxxxaaa", 1})
	if err := db.Exec(t.Context(), `
INSERT INTO usage_hourly SELECT * REPLACE (unobserved AS unobserved_attribution, version + 1 AS version)
FROM usage_hourly FINAL`); err != nil {
		t.Fatal(err)
	}
	got := ofKind(find(t, db, monday, monday.Add(10*time.Hour)), episode.Unobserved, true)
	if len(got) != 1 || got[0].Cause != "owners" || got[0].Open || got[0].Observed != 3 {
		t.Fatalf("%+v, want one of cause owners over 3 GPU-hours, closed", got)
	}
}

// event is an XID on a GPU, some time after monday.
type event struct {
	gpu   string
	after time.Duration
	code  int
	batch int
}

func writeEvents(t *testing.T, db *store.DB, events ...event) {
	t.Helper()
	for _, e := range events {
		if err := db.Exec(t.Context(), `
INSERT INTO events (cluster, node, gpu, leaf, at, kind, code, detail, batch)
VALUES ('c', 'n1', {gpu:String}, '', fromUnixTimestamp64Milli({at:Int64}, 'UTC'), 'xid', {code:Int64}, '',
    {batch:UInt64})`,
			store.Named("gpu", e.gpu), store.Named("at", monday.Add(e.after).UnixMilli()), store.Named("code", e.code),
			store.Named("batch", e.batch)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestErrorsOfAGPUAreOneFinding: a fatal XID with its copies, the unhealthy time after it, and the symptoms on the
// other GPU of the job. Another job's own error is another finding, and no alert.
func TestErrorsOfAGPUAreOneFinding(t *testing.T) {
	db := storetest.Open(t)
	for _, g := range []gpu{
		{"GPU-1", "ml", monday, "aaaaaaaaaaaa", 1},
		{"GPU-2", "ml", monday, "aaaaaaaaaaaa", 1},
		{"GPU-3", "nlp", monday, "aaaaaaaaaaaa", 1},
	} {
		write(t, db, g)
	}
	for _, sql := range []string{`
INSERT INTO usage_hourly SELECT * REPLACE (['job-1'] AS workload, version + 1 AS version) FROM usage_hourly FINAL
WHERE gpu IN ('GPU-1', 'GPU-2')`, `
INSERT INTO usage_hourly SELECT * REPLACE (active[1] AS unhealthy, [] AS leaf, [] AS profile, [] AS profile_slices,
  [] AS owner, [] AS tenant, [] AS project, [] AS user, [] AS workload, [] AS active, [] AS idle, [] AS unproven,
  [] AS inferred, [] AS work, [] AS energy_mj, [] AS parked, version + 1 AS version)
FROM usage_hourly FINAL WHERE gpu = 'GPU-1' AND toHour(hour) IN (6, 7)`} {
		if err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	at := 5*time.Hour + 30*time.Minute
	writeEvents(t, db, event{"GPU-1", at, 79, 1}, event{"GPU-1", at, 79, 2}, event{"GPU-1", at + time.Second, 79, 3},
		event{"GPU-1", at, 45, 1}, event{"GPU-2", at + time.Second, 45, 1}, event{"GPU-2", at + time.Hour, 45, 9},
		event{"GPU-3", at, 31, 1})
	got := ofKind(find(t, db, monday, monday.Add(12*time.Hour)), episode.GPUErrors, true)
	var short []string
	for _, e := range got {
		short = append(short, fmt.Sprint(e.Cause, e.Leaves, e.Start.Hour(), e.End.Hour(), e.Observed, e.Severity,
			!e.Alerted.IsZero(), e.Open, e.Tenant+e.Workload))
	}
	want := []string{"fatal[GPU-1/ GPU-2/] 5 8 2 medium true false", "application[GPU-3/] 5 6 0 info false false"}
	if diff := cmp.Diff(want, short); diff != "" {
		t.Fatalf("findings (-want +got):\n%s", diff)
	}
	if !strings.Contains(got[0].Evidence, "XID 45 (1), XID 79 (1)") || !strings.Contains(got[0].Evidence, "XID 45 (2)") {
		t.Errorf("evidence %q: want each error once, and the symptoms", got[0].Evidence)
	}
	again := ofKind(find(t, db, monday.Add(7*time.Hour), monday.Add(8*time.Hour)), episode.GPUErrors, true)
	if len(again) != 1 || again[0].ID() != got[0].ID() {
		t.Errorf("in a later range: %+v, want the same finding", again)
	}
}

// writeHolds writes an hour of slots of a minute of a GPU with a reason.
func writeHolds(t *testing.T, db *store.DB, gpu string, h, slots int, why meter.Why) {
	t.Helper()
	if err := db.Exec(t.Context(), `
INSERT INTO holds (cluster, node, gpu, slot, slot_ms, batch, model, slices, owner, bucket, why, slice_ms)
SELECT 'c', 'n1', {gpu:String}, toDateTime({start:Int64}, 'UTC') + 60 * number, 60000, number, 'H100', 7, 1, 'unproven',
    {why:UInt8}, 420000
FROM numbers({slots:UInt64})`, store.Named("gpu", gpu), store.Named("start", monday.Add(time.Duration(h)*time.Hour).Unix()),
		store.Named("slots", slots), store.Named("why", uint8(why))); err != nil {
		t.Fatal(err)
	}
}

// TestDoubtfulTelemetryIsNoTenants: missing, single and contradictory signals are a finding of the node each, without a
// tenant; so is work without an owner, which costs the platform the time.
func TestDoubtfulTelemetryIsNoTenants(t *testing.T) {
	db := storetest.Open(t)
	write(t, db, gpu{"GPU-1", "ml", monday, strings.Repeat("u", 50), 1})
	write(t, db, gpu{"GPU-2", "ml", monday, strings.Repeat("u", 50), 1})
	for _, h := range []int{0, 6, 24} { // one run: less than a day apart
		writeHolds(t, db, "GPU-1", h, 60, meter.WhyContrary)
		writeHolds(t, db, "GPU-2", h, 60, meter.WhyContrary)
	}
	writeHolds(t, db, "GPU-1", 0, 20, meter.WhyOneSignal) // too short
	writeHolds(t, db, "GPU-1", 6, 60, meter.WhyNoSignal)
	writeHolds(t, db, "GPU-1", 13, 60, meter.WhyNoSignal) // not a sampled hour
	writeHolds(t, db, "GPU-1", 36, 60, meter.WhyNoSignal) // another run
	writeHolds(t, db, "GPU-2", 12, 60, meter.WhyOneSignal)
	writeHolds(t, db, "GPU-2", 12, 60, meter.WhyUnownedWork)
	writeHolds(t, db, "GPU-2", 18, 60, meter.WhyUnownedWork)
	writeHolds(t, db, "GPU-2", 36, 60, meter.WhyActivity)
	var got []string
	for _, e := range find(t, db, monday, monday.Add(50*time.Hour)) {
		if e.Grade != episode.None || e.Tenant+e.Project+e.User+e.Workload+e.Currency != "" || !e.WastedGPUHours.IsZero() {
			t.Errorf("finding %+v, want one without a tenant, waste or cost", e)
		}
		got = append(got, fmt.Sprintf("%s %s %s %v %g-%g %g %s", e.Kind, e.Cause, e.Node, e.Leaves, e.Start.Sub(monday).Hours(),
			e.End.Sub(monday).Hours(), e.Observed, e.Severity))
	}
	want := []string{
		"telemetry contradictory n1 [GPU-1/ GPU-2/] 0-30 0 info",
		"telemetry missing n1 [GPU-1/] 6-12 0 info",
		"telemetry one_signal n1 [GPU-2/] 12-18 0 info",
		"work_without_owner  n1 [GPU-2/] 12-24 12 low",
		"telemetry missing n1 [GPU-1/] 36-42 0 info",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// TestOnlySoManyRowsAreRead: of more hours with errors the newest, and the findings that are cut say so.
func TestOnlySoManyRowsAreRead(t *testing.T) {
	db := storetest.Open(t)
	write(t, db, gpu{"GPU-1", "ml", monday, strings.Repeat("a", 102), 1})
	if err := db.Exec(t.Context(), `
INSERT INTO events (cluster, node, gpu, at, kind, code)
SELECT 'c', 'n1', concat('GPU-', toString(number % 500)),
    toDateTime64({start:Int64} + 3600 * intDiv(number, 500), 3, 'UTC'), 'xid', 48
FROM numbers(50700) UNION ALL
SELECT 'c', 'n1', 'GPU-late', toDateTime64({start:Int64} + 3600 * 90, 3, 'UTC'), 'xid', 48`,
		store.Named("start", monday.Unix())); err != nil {
		t.Fatal(err)
	}
	starts := map[int]int{}
	for _, e := range find(t, db, monday, monday.Add(102*time.Hour)) {
		h := int(e.Start.Sub(monday).Hours())
		if starts[h]++; strings.Contains(e.Evidence, "50000") != (e.Leaves[0].GPU != "GPU-late") {
			t.Errorf("finding from hour %d: %q; want a note of those that begin in the oldest day read", h, e.Evidence)
		}
	}
	if diff := cmp.Diff(map[int]int{1: 299, 2: 201, 90: 1}, starts); diff != "" {
		t.Errorf("findings by start (-want +got):\n%s", diff)
	}
}
