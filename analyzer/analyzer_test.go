package analyzer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gputally/gputally/analyzer"
	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
)

// rates: an H100 costs 3.50 USD until the 10th, then 4 USD.
type rates struct{}

func (rates) GPUHour(u *episode.Use) (*big.Rat, string, bool) {
	rate := big.NewRat(7, 2)
	if !u.Hour.Before(monday.AddDate(0, 0, 8)) {
		rate = big.NewRat(4, 1)
	}
	return rate, "USD", u.Model == "H100"
}

func lines(episodes []episode.Episode) []string {
	var out []string
	for _, e := range episodes {
		out = append(out, strings.Join([]string{
			string(e.Kind), e.Tenant, e.At().GPU, e.Start.Format("01-02T15"), e.End.Format("01-02T15"),
			e.WastedGPUHours.String(), e.WastedCost.String() + e.Currency,
		}, " "))
	}
	return out
}

func newService(t *testing.T, db analyzer.DB) (*analyzer.Service, *clock.Fake, *prometheus.Registry) {
	t.Helper()
	registry, fake := prometheus.NewRegistry(), clock.NewFake(monday.AddDate(1, 0, 0))
	return newServiceOf(t, db, analyzer.DefaultConfig(), fake, registry), fake, registry
}

func newServiceOf(t *testing.T, db analyzer.DB, config analyzer.Config, clock clock.Clock, registry *prometheus.Registry) *analyzer.Service {
	t.Helper()
	s, err := analyzer.New(config, analyzer.Deps{
		DB: db, Rates: rates{}, Clock: clock, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Registry: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFindIdleAllocations(t *testing.T) {
	db := storetest.Open(t)
	write(t, db, gpu{"GPU-1", "ml", monday, "aaiiiiaf", 1})
	write(t, db, gpu{"GPU-2", "ml", monday, "iuiuuiix", 1}) // time without evidence ends a run
	write(t, db, gpu{"GPU-3", "ml", monday, "aauuuuff", 1}) // unknown is not idle
	write(t, db, gpu{"GPU-4", "ml", monday, "aaiaaaaa", 1})
	write(t, db, gpu{"GPU-5", "ml", monday, "iiiiiiii", 1})
	write(t, db, gpu{"GPU-5", "nlp", monday, "aaaaaaaa", 2}) // the ledger knows better now
	got, err := analyzer.Find(t.Context(), db, analyzer.DefaultConfig(), rates{}, monday, monday.Add(24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"idle_allocation ml GPU-2 03-02T00 03-02T01 1 3.5USD",
		"idle_allocation ml GPU-1 03-02T02 03-02T06 4 14USD",
		"idle_allocation ml GPU-2 03-02T02 03-02T03 1 3.5USD",
		"idle_allocation ml GPU-4 03-02T02 03-02T03 1 3.5USD",
		"idle_allocation ml GPU-2 03-02T05 03-02T07 2 7USD",
	}
	if diff := cmp.Diff(want, lines(got)); diff != "" {
		t.Errorf("episodes (-want +got):\n%s", diff)
	}
	if e := got[1]; e.Project != "p" || e.Workload != "train on GPU-1" || e.User != "ann" || e.Node != "n1" || e.At().Leaf != "gpu" ||
		e.Cluster != "c" {
		t.Errorf("owner or place is missing: %+v", e)
	}
}

func TestFindIsWholeWhateverTheRange(t *testing.T) {
	db := storetest.Open(t)
	write(t, db, gpu{"GPU-1", "ml", monday, "a" + strings.Repeat("i", 100) + "a", 1})
	var ids []string
	for _, from := range []time.Duration{0, 50 * time.Hour, 100 * time.Hour} {
		got, err := analyzer.Find(t.Context(), db, analyzer.DefaultConfig(), nil, monday.Add(from),
			monday.Add(from+time.Hour+time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || got[0].WastedGPUHours.String() != "100" || !strings.Contains(got[0].Evidence, "no rate is known") {
			t.Fatalf("from hour %v: %+v, want all 100 hours", from, got)
		}
		ids = append(ids, got[0].ID())
	}
	if ids[0] != ids[1] || ids[0] != ids[2] {
		t.Errorf("ids differ: %v", ids)
	}
	got, err := analyzer.Find(t.Context(), db, analyzer.DefaultConfig(), nil, monday.Add(101*time.Hour),
		monday.Add(102*time.Hour))
	if err != nil || len(got) != 0 {
		t.Errorf("after the episode's end: %v, %v; want nothing", got, err)
	}
}

func TestFindRefusesAnEmptyRange(t *testing.T) {
	_, err := analyzer.Find(t.Context(), storetest.Open(t), analyzer.DefaultConfig(), nil, monday, monday)
	if err == nil || !strings.Contains(err.Error(), "2026-03-02T00:00:00Z") {
		t.Errorf("error %v: want one that names the range", err)
	}
}

// office is an active working week by day, free by night, of 28 days.
func office() string {
	var b strings.Builder
	for h := range 28 * 24 {
		at := monday.Add(time.Duration(h) * time.Hour)
		switch {
		case at.Weekday() == time.Saturday || at.Weekday() == time.Sunday || at.Hour() < 8 || at.Hour() >= 19:
			b.WriteByte('f')
		default:
			b.WriteByte('a')
		}
	}
	return b.String()
}

func TestFindOffHoursSpike(t *testing.T) {
	db := storetest.Open(t)
	sunday := 27*24 + 2
	for _, uuid := range []string{"GPU-1", "GPU-2", "GPU-3"} {
		p := []byte(office())
		copy(p[sunday:], "aaa")
		write(t, db, gpu{uuid, "ml", monday, string(p), 1})
	}
	for _, uuid := range []string{"GPU-7", "GPU-8", "GPU-9"} { // inference works round the clock
		write(t, db, gpu{uuid, "inference", monday, strings.Repeat("a", 28*24), 1})
	}
	got, err := analyzer.Find(t.Context(), db, analyzer.DefaultConfig(), rates{}, monday, monday.AddDate(0, 0, 28))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"off_hours_spike ml  03-29T02 03-29T05 9 36USD"}
	if diff := cmp.Diff(want, lines(got)); diff != "" {
		t.Errorf("episodes (-want +got):\n%s", diff)
	}
}

func TestPublishReplacesTheRange(t *testing.T) {
	db := storetest.Open(t)
	s, fake, registry := newService(t, db)
	write(t, db, gpu{"GPU-1", "ml", monday, "aiiia", 1})
	write(t, db, gpu{"GPU-2", "ml", monday, "aiiii", 1})
	runOnce(t, s)
	wantStored(t, db, "idle_allocation ml GPU-1 03-02T01 03-02T04 3 10.5USD",
		"idle_allocation ml GPU-2 03-02T01 03-02T05 4 14USD")

	// A second look changes nothing and writes nothing.
	runOnce(t, s)
	wantCounters(t, registry, 2, 0, 2)

	// Late data: GPU-1 was at work, GPU-2 goes on. The clock is behind.
	fake.Set(monday)
	write(t, db, gpu{"GPU-1", "ml", monday, "aaaaa", 2})
	write(t, db, gpu{"GPU-2", "ml", monday, "aiiiiii", 2})
	runOnce(t, s)
	wantStored(t, db, "idle_allocation ml GPU-2 03-02T01 03-02T07 6 21USD")
	wantCounters(t, registry, 3, 1, 2)

	// And it comes back.
	write(t, db, gpu{"GPU-1", "ml", monday, "aiiia", 3})
	runOnce(t, s)
	wantStored(t, db, "idle_allocation ml GPU-1 03-02T01 03-02T04 3 10.5USD",
		"idle_allocation ml GPU-2 03-02T01 03-02T07 6 21USD")
	const open = `
# HELP gputally_anomaly_open Findings that have not ended by their cluster's newest hours. What belongs to a pattern or an outage counts in that.
# TYPE gputally_anomaly_open gauge
gputally_anomaly_open{kind="idle_allocation",severity="low",tenant="ml"} 1
# HELP gputally_anomaly_wasted_cost Cost of the wasted GPU-hours at the price book's prices.
# TYPE gputally_anomaly_wasted_cost gauge
gputally_anomaly_wasted_cost{currency="USD",kind="idle_allocation",severity="low",tenant="ml"} 31.5
# HELP gputally_anomaly_wasted_gpu_hours Wasted GPU-hours of the findings in the analyzer's window.
# TYPE gputally_anomaly_wasted_gpu_hours gauge
gputally_anomaly_wasted_gpu_hours{kind="idle_allocation",severity="low",tenant="ml"} 9
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(open), "gputally_anomaly_open",
		"gputally_anomaly_wasted_gpu_hours", "gputally_anomaly_wasted_cost"); err != nil {
		t.Error(err)
	}
}

// TestWhatIsRememberedChangesNothing: hours are added to the ledger of six GPUs in two clusters, and earlier ones are
// written anew, in random order. A service that remembers finds what one finds that reads all.
func TestWhatIsRememberedChangesNothing(t *testing.T) {
	steps := 60
	if testing.Short() {
		steps = 8
	}
	seed := uint64(clock.Real().Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	letters := func(n int) string {
		var b strings.Builder
		for c := byte('i'); b.Len() < n; {
			if rng.IntN(4) == 0 {
				c = "aiiiufx."[rng.IntN(8)]
			}
			b.WriteByte(c)
		}
		return b.String()
	}
	db := storetest.Open(t)
	s, fake, _ := newService(t, db)
	ends, newest := map[string]int{}, 0
	for step := range steps {
		for range 1 + rng.IntN(3) {
			name := fmt.Sprintf("GPU-%d", rng.IntN(6))
			from, n := ends[name], 1+rng.IntN(30)
			if rng.IntN(3) == 0 && from > 0 {
				from, n = rng.IntN(from), 1+rng.IntN(3)
			}
			if newest-from > 90 { // hours that are closed are looked at every six hours
				fake.Advance(6 * time.Hour)
			}
			ends[name] = max(ends[name], from+n)
			newest = max(newest, from+n)
			write(t, db, gpu{name, "ml", monday.Add(time.Duration(from) * time.Hour), letters(n), uint64(step) + 1})
		}
		fake.Advance(time.Duration(rng.IntN(120)) * time.Minute)
		from, to := monday.AddDate(0, 0, -1), monday.AddDate(0, 2, 0)
		got, err := s.Find(t.Context(), from, to)
		if err != nil {
			t.Fatal(err)
		}
		want, err := analyzer.Find(t.Context(), db, analyzer.DefaultConfig(), rates{}, from, to)
		if err != nil {
			t.Fatal(err)
		}
		ofIdle := func(found []episode.Episode) []string {
			return lines(slices.DeleteFunc(slices.Clone(found), func(e episode.Episode) bool { return e.Kind != episode.IdleAllocation && e.Kind != episode.IdlePattern }))
		}
		if diff := cmp.Diff(ofIdle(want), ofIdle(got)); diff != "" {
			t.Fatalf("step %d of seed %d (-all read +remembered):\n%s", step, seed, diff)
		}
	}
}

// TestALeafThatJoinsALongAllocationIsInIt: a workload is idle on one GPU for longer than a run reads, and on a second
// one for the last days.
func TestALeafThatJoinsALongAllocationIsInIt(t *testing.T) {
	db := storetest.Open(t)
	s, _, _ := newService(t, db)
	const day = 24
	for _, g := range []gpu{
		{"GPU-1", "ml", monday, strings.Repeat("i", 150*day), 1}, {"GPU-2", "ml", monday.AddDate(0, 0, 140), strings.Repeat("i", 10*day), 1},
	} {
		if err := db.Exec(t.Context(), patternSQL, store.Named("pattern", g.pattern), store.Named("start", g.start.Unix()),
			store.Named("gpu", g.uuid), store.Named("workload", "serve"), store.Named("tenant", g.tenant), store.Named("version", g.version)); err != nil {
			t.Fatal(err)
		}
	}
	for run := range 3 {
		runOnce(t, s)
		got, err := analyzer.Load(t.Context(), db, monday.AddDate(0, 0, 115), monday.AddDate(1, 0, 0))
		if err != nil || len(got) != 1 || len(got[0].Leaves) != 2 || got[0].WastedGPUHours.IntPart() != 160*day {
			t.Fatalf("run %d: %v, %v; want one episode of two leaves and %d GPU-hours", run, lines(got), err, 160*day)
		}
	}
}

// TestAMutedFindingIsNoAlert: it stays open.
func TestAMutedFindingIsNoAlert(t *testing.T) {
	for muted, want := range map[bool]float64{false: 1, true: 0} {
		db := storetest.Open(t)
		write(t, db, gpu{"GPU-1", "ml", monday, "aiiiiii", 1})
		registry := prometheus.NewRegistry()
		s, err := analyzer.New(analyzer.DefaultConfig(), analyzer.Deps{
			DB: db, Rates: rates{}, Clock: clock.NewFake(monday.AddDate(0, 0, 1)), Log: slog.New(slog.DiscardHandler), Registry: registry,
			Muted: func(context.Context) (func(*episode.Episode) bool, error) {
				return func(*episode.Episode) bool { return muted }, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		runOnce(t, s)
		wantMetric(t, registry, "gputally_anomaly_open", 1)
		wantMetric(t, registry, "gputally_anomaly_alerts", want)
	}
}

func runOnce(t *testing.T, s *analyzer.Service) {
	t.Helper()
	if err := s.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func wantStored(t *testing.T, db analyzer.DB, want ...string) {
	t.Helper()
	got, err := analyzer.Load(t.Context(), db, monday, monday.AddDate(0, 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, lines(got)); diff != "" {
		t.Errorf("table anomalies (-want +got):\n%s", diff)
	}
}

func wantCounters(t *testing.T, registry *prometheus.Registry, written, deleted, kept float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "gputally_analyzer_episodes_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	want := map[string]float64{"written": written, "deleted": deleted, "kept": kept}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("gputally_analyzer_episodes_total (-want +got):\n%s", diff)
	}
}

func TestAnAllocationLongerThanTheWindowKeepsItsID(t *testing.T) {
	db := storetest.Open(t)
	s, _, _ := newService(t, db)
	const day = 24
	write(t, db, gpu{"GPU-1", "ml", monday, strings.Repeat("i", 30*day), 1})
	runOnce(t, s)
	first, err := analyzer.Load(t.Context(), db, monday, monday.AddDate(1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	for days := 60; days <= 120; days += 30 {
		write(t, db, gpu{"GPU-1", "ml", monday, strings.Repeat("i", days*day), 2})
		runOnce(t, s)
		got, err := analyzer.Load(t.Context(), db, monday, monday.AddDate(1, 0, 0))
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || got[0].ID() != first[0].ID() || got[0].WastedGPUHours.IntPart() != int64(days*day) {
			t.Fatalf("after %d days: %v, want one of %d hours with id %s", days, lines(got), days*day, first[0].ID())
		}
	}
}

// asked records the range and the GPUs of every query of idle time.
type asked struct {
	analyzer.DB
	queries []string
}

func (a *asked) Query(ctx context.Context, sql string, args ...any) (driver.Rows, error) {
	if strings.Contains(sql, "rest_owner") {
		var gpus []string
		if len(args) > 2 {
			gpus = args[2].([]string)
		}
		a.queries = append(a.queries, args[0].(time.Time).UTC().Format("2006-01-02")+" "+strings.Join(gpus, ","))
	}
	return a.DB.Query(ctx, sql, args...)
}

// TestOneLongAllocationIsReadByItself: the other GPUs are read as far back as
// ever; what overlaps the window is found all the same.
func TestOneLongAllocationIsReadByItself(t *testing.T) {
	db := storetest.Open(t)
	s, _, _ := newService(t, db)
	const day = 24
	for days := 30; days <= 150; days += 30 {
		write(t, db, gpu{"GPU-1", "ml", monday, strings.Repeat("i", days*day), uint64(days)})
		runOnce(t, s)
	}
	write(t, db, gpu{"GPU-2", "nlp", monday.AddDate(0, 0, 40), "aiiiia", 1})
	write(t, db, gpu{"GPU-2", "nlp", monday.AddDate(0, 0, 120), "aiiiia", 1})
	noted := &asked{DB: db}
	s, _, registry := newService(t, noted)
	runOnce(t, s)
	// Read up to 30 July: the window of 35 days begins on 25 June.
	// A pattern of May, of which an allocation may overlap the window, needs 14 days of April. The newest hours are read
	// by every run.
	want := []string{"2026-03-17 GPU-1", "2026-02-14 GPU-1", "2026-02-14 GPU-1", "2026-04-17 ", "2026-07-29 "}
	if diff := cmp.Diff(want, noted.queries); diff != "" {
		t.Errorf("idle hours read (-want +got):\n%s", diff)
	}
	got, err := analyzer.Load(t.Context(), db, monday.AddDate(0, 0, 115), monday.AddDate(1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"idle_allocation ml GPU-1 03-02T00 07-30T00 3600 14304USD",
		"idle_allocation nlp GPU-2 06-30T01 06-30T05 4 16USD",
	}, lines(got)); diff != "" {
		t.Errorf("episodes (-want +got):\n%s", diff)
	}
	wantMetric(t, registry, "gputally_anomaly_open", 1)
}

// TestAClusterThatLagsHasOpenEpisodes: "open" goes by the cluster's own newest
// hour; one that sent nothing for three days has ended.
func TestAClusterThatLagsHasOpenEpisodes(t *testing.T) {
	for pattern, want := range map[string]float64{"aiiii": 2, "a" + strings.Repeat("i", 80): 1} {
		db := storetest.Open(t)
		write(t, db, gpu{"GPU-1", "ml", monday, "aiiii", 1})
		if err := db.Exec(t.Context(),
			`INSERT INTO usage_hourly SELECT * REPLACE ('behind' AS cluster) FROM usage_hourly`); err != nil {
			t.Fatal(err)
		}
		write(t, db, gpu{"GPU-1", "ml", monday, pattern + "iiii", 2})
		s, _, registry := newService(t, db)
		runOnce(t, s)
		wantMetric(t, registry, "gputally_anomaly_open", want)
	}
}

// TestTimeToComeIsNoTimeToLookAt: one imported record of another century must
// not hide what goes on now.
func TestTimeToComeIsNoTimeToLookAt(t *testing.T) {
	db := storetest.Open(t)
	s, fake, registry := newService(t, db)
	fake.Set(monday.Add(8 * time.Hour))
	write(t, db, gpu{"GPU-1", "ml", monday, "aaiiiiii", 1})
	write(t, db, gpu{"GPU-2", "ml", monday.AddDate(36, 0, 0), "aa", 1})
	runOnce(t, s)
	wantStored(t, db, "idle_allocation ml GPU-1 03-02T02 03-02T08 6 21USD")
	wantMetric(t, registry, "gputally_anomaly_open", 1)
}

// TestAWithdrawnHourIsNotTheNewest: its old row stands until ClickHouse merges parts.
func TestAWithdrawnHourIsNotTheNewest(t *testing.T) {
	db := storetest.Open(t)
	write(t, db, gpu{"GPU-1", "ml", monday, "aaiiiiii", 1})
	write(t, db, gpu{"GPU-2", "ml", monday.Add(20 * time.Hour), "a", 1})
	for _, sql := range []string{"SYSTEM STOP MERGES usage_hourly", `
INSERT INTO usage_hourly SELECT * REPLACE (version + 1 AS version, 0 AS present_ms, arrayMap(x -> toUInt64(0), active) AS active)
FROM usage_hourly WHERE gpu = 'GPU-2'`} {
		if err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	s, _, registry := newService(t, db)
	runOnce(t, s)
	wantMetric(t, registry, "gputally_anomaly_open", 1)
}

func TestAMonthOfAFleet(t *testing.T) {
	db := storetest.Open(t)
	writeFleet(t, db)
	got, err := analyzer.Find(t.Context(), db, analyzer.DefaultConfig(), rates{}, monday, monday.AddDate(0, 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	nights := slices.DeleteFunc(slices.Clone(got), func(e episode.Episode) bool { return e.Kind == episode.IdlePattern })
	if len(nights) != 62 || len(got) != 64 {
		t.Errorf("%d allocations in %d patterns, want 62 in 2: a month's", len(nights), len(got)-len(nights))
	}
	for _, e := range nights {
		if len(e.Leaves) != 7 || e.WastedGPUHours.String() != "9" {
			t.Errorf("episode of %s: %d leaves, %s GPU-hours, want 7 and 9", e.Start, len(e.Leaves), e.WastedGPUHours)
		}
	}
}

// BenchmarkAMonthOfAFleet: 32 GPUs of three leaves, 744 hours.
func BenchmarkAMonthOfAFleet(b *testing.B) {
	db := storetest.Open(b)
	writeFleet(b, db)
	for b.Loop() {
		if _, err := analyzer.Find(b.Context(), db, analyzer.DefaultConfig(), rates{}, monday,
			monday.AddDate(0, 1, 0)); err != nil {
			b.Fatal(err)
		}
	}
}

// brokenDB fails until it is mended.
type brokenDB struct {
	analyzer.DB
	broken bool
}

var errAway = errors.New("engine away")

func (d *brokenDB) Query(ctx context.Context, sql string, args ...any) (driver.Rows, error) {
	if d.broken {
		return nil, errAway
	}
	return d.DB.Query(ctx, sql, args...)
}

func (d *brokenDB) Insert(ctx context.Context, table string, in proto.Input) error {
	return d.DB.Insert(ctx, table, in)
}

func TestRunGoesOnAfterAFailure(t *testing.T) {
	db := &brokenDB{DB: storetest.Open(t), broken: true}
	s, fake, registry := newService(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	if err := fake.BlockUntil(ctx, 1); err != nil {
		t.Fatal(err)
	}
	wantMetric(t, registry, "gputally_analyzer_errors_total", 1)
	wantMetric(t, registry, "gputally_analyzer_last_run_timestamp_seconds", 0)
	db.broken = false
	fake.Advance(analyzer.DefaultConfig().Interval)
	if err := fake.BlockUntil(ctx, 1); err != nil {
		t.Fatal(err)
	}
	wantMetric(t, registry, "gputally_analyzer_errors_total", 1)
	wantMetric(t, registry, "gputally_analyzer_runs_total", 1)
	wantMetric(t, registry, "gputally_analyzer_last_run_timestamp_seconds", float64(fake.Now().Unix()))
	cancel()
	if err := <-done; err != nil {
		t.Errorf("run ended with %v, want nil", err)
	}
}

func wantMetric(t *testing.T, registry *prometheus.Registry, name string, want float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			var got float64
			for _, m := range f.GetMetric() {
				got += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
			if got != want {
				t.Errorf("%s = %v, want %v", name, got, want)
			}
			return
		}
	}
	t.Errorf("%s is not exposed", name)
}

func TestUnobservedTimeIsExposed(t *testing.T) {
	db := storetest.Open(t)
	s, _, registry := newService(t, db)
	write(t, db, gpu{"GPU-1", "ml", monday, "xxxx" + strings.Repeat("a", 20), 1})
	write(t, db, gpu{"GPU-2", "ml", monday.Add(-24 * time.Hour), strings.Repeat("x", 24) + strings.Repeat("f", 24), 1})
	runOnce(t, s)
	const want = `
# HELP gputally_analyzer_capacity_gpu_hours GPU-hours in the inventory in the ledger's newest 24 hours.
# TYPE gputally_analyzer_capacity_gpu_hours gauge
gputally_analyzer_capacity_gpu_hours{cluster="c"} 48
# HELP gputally_analyzer_unobserved_gpu_hours GPU-hours of the newest 24 hours that no collector observed (cause unseen) or whose owners are unknown (cause owners).
# TYPE gputally_analyzer_unobserved_gpu_hours gauge
gputally_analyzer_unobserved_gpu_hours{cause="owners",cluster="c"} 0
gputally_analyzer_unobserved_gpu_hours{cause="unseen",cluster="c"} 4
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"gputally_analyzer_capacity_gpu_hours", "gputally_analyzer_unobserved_gpu_hours"); err != nil {
		t.Error(err)
	}
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	config := analyzer.DefaultConfig()
	config.Idle.Bridge = -1
	_, err := analyzer.New(config, analyzer.Deps{})
	if err == nil || !strings.Contains(err.Error(), "idle: bridge -1ns") {
		t.Errorf("error %v: want the field and its value", err)
	}
	if _, err := analyzer.New(analyzer.DefaultConfig(), analyzer.Deps{}); err == nil {
		t.Error("no dependencies: want an error")
	}
}

// scaleSQL writes 70 days of whole GPUs, of which each twentieth hour is idle, in eighty tenants.
const scaleSQL = `
INSERT INTO usage_hourly (cluster, hour, gpu, node, model, slices, present_ms, until_ms, inputs, version,
    leaf, profile, profile_slices, owner, tenant, project, user, workload, active, idle, unproven, inferred, work, energy_mj,
    parked, rest_owner, rest_from, rest_ms, rest_slice_ms, rest_grade, rest_released)
WITH number % {gpus:UInt64} AS g, intDiv(number, {gpus:UInt64}) AS h, cityHash64(g, intDiv(h, 4)) % 20 = 0 AS rest,
    toUInt64(25200000) AS full
SELECT 'c', toDateTime({start:Int64}, 'UTC') + h * 3600, concat('GPU-', toString(g)), concat('n', toString(intDiv(g, 8))), 'H100', 7,
    3600000, 3600000, 1, 1, ['gpu'], [''], [7], [g + 1], [concat('t', toString(g % 80))], [concat('p', toString(g % 160))], [''],
    [concat('job-', toString(g), '-', toString(intDiv(h, 30)))],
    [if(rest, 0, full)], [if(rest, full, 0)], [0], [0], [0], [0],
    [0], if(rest, [0], []), if(rest, [0], []), if(rest, [3600000], []), if(rest, [full], []), if(rest, [3], []), if(rest, [0], [])
FROM numbers({gpus:UInt64} * 1680)`

// BenchmarkRunOf70Days is a service's first run, and one five minutes later.
func BenchmarkRunOf70Days(b *testing.B) {
	for _, gpus := range []int{200, 1000} {
		db := storetest.Open(b)
		if err := db.Exec(b.Context(), scaleSQL, store.Named("gpus", gpus), store.Named("start", monday.Unix())); err != nil {
			b.Fatal(err)
		}
		for _, name := range []string{"first", "later"} {
			b.Run(fmt.Sprintf("%d GPUs/%s", gpus, name), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					s, err := analyzer.New(analyzer.DefaultConfig(), analyzer.Deps{
						DB: db, Rates: rates{}, Clock: clock.NewFake(monday.AddDate(0, 0, 70)), Log: slog.New(slog.DiscardHandler),
						Registry: prometheus.NewRegistry(),
					})
					if err == nil && name == "later" {
						err = s.RunOnce(b.Context())
					}
					b.StartTimer()
					if err = errors.Join(err, s.RunOnce(b.Context())); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
