package ingest_test

import (
	"context"
	"log/slog"
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/decisions/decisionstest"
	"github.com/gputally/gputally/internal/wire"
)

// liveBatch is a batch of the fleet that its collector sends as it should.
func liveBatch(node, slot int) *wire.Batch {
	b := fleetBatch(node, slot)
	b.Origin, b.WindowFromMs, b.WindowToMs, b.BootMs = wire.Origin_ORIGIN_LIVE, 0, 0, fleetStart.UnixMilli()
	return b
}

// arrives appends a batch at an instant of the broker's clock.
func (p *topic) arrives(t testing.TB, at time.Time, b *wire.Batch) {
	t.Helper()
	p.msgs = append(p.msgs,
		broker.Message{Topic: broker.TopicSamples, Value: encoded(t, b), Offset: int64(len(p.msgs)), Time: at})
}

// liveHour is an hour of one node, each batch sent as its slot ended.
func (p *topic) liveHour(t testing.TB, node int) {
	t.Helper()
	for slot := range 360 {
		p.arrives(t, fleetStart.Add(time.Duration(slot+1)*fleetSlot), liveBatch(node, slot))
	}
}

func fleetCluster() decisions.Cluster {
	return decisions.Cluster{Name: "fleet", SlotMS: fleetSlot.Milliseconds()}
}

func fleetRun(id, sends, collector string, from, to time.Time) decisions.Run {
	return decisions.Run{
		ID: id, Cluster: "fleet", SlotMS: fleetSlot.Milliseconds(), Sends: sends, Collector: collector,
		From: from, To: to, Hours: 24,
	}
}

// declaredPipeline has the fleet's cluster declared, and nothing else.
func declaredPipeline(t *testing.T) (*pipeline, *decisionstest.Topic) {
	t.Helper()
	p, decided := newPipeline(t), &decisionstest.Topic{}
	p.origins = &decisionstest.Log{Topic: decided}
	decided.Append(t, fleetStart.Add(-time.Hour), decisions.KindCluster, fleetCluster())
	return p, decided
}

func reasons(p *pipeline) (out []string) {
	for _, m := range p.topic.dead {
		for _, h := range m.Headers {
			if h.Key == "reason" {
				out = append(out, string(h.Value))
			}
		}
	}
	return out
}

// TestH6HistoryNobodyOpenedIsNotRewritten: a collector that says IMPORT over an
// hour long closed changes nothing, whatever window and boot it claims.
func TestH6HistoryNobodyOpenedIsNotRewritten(t *testing.T) {
	p, decided := declaredPipeline(t)
	p.topic.liveHour(t, 0)
	p.drain(t)
	want := p.usage(t)
	attacked := fleetStart.AddDate(0, 0, 10)
	for slot := range 360 {
		for _, origin := range []wire.Origin{
			wire.Origin_ORIGIN_IMPORT, wire.Origin_ORIGIN_REPLAY,
			wire.Origin_ORIGIN_SIMULATED,
		} {
			b := fleetBatch(0, slot)
			b.Collector, b.Origin, b.BootMs = "zzz-evil", origin, attacked.UnixMilli()
			b.WindowFromMs, b.WindowToMs = 0, 1<<50
			b.Gpus[0].Holds[0].Owner.Namespace = "victim-tenant"
			p.topic.arrives(t, attacked, b)
		}
	}
	p.drain(t)
	if diff := cmp.Diff(want, p.usage(t)); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(slices.Repeat([]string{"origin"}, 3*360), reasons(p)); diff != "" {
		t.Errorf("dead letters (-want +got):\n%s", diff)
	}
	for _, h := range p.topic.dead[0].Headers {
		if h.Key == "error" &&
			(!strings.Contains(string(h.Value), "zzz-evil") || !strings.Contains(string(h.Value), "gputally import runs open")) {
			t.Errorf("error %q names neither the collector nor the command", h.Value)
		}
	}
	// Another's run doesn't help it; its own does.
	decided.Append(t, attacked, decisions.KindRun,
		fleetRun("r1", wire.SendsImport, "import/fleet", fleetStart, fleetStart.Add(time.Hour)))
	p.topic.arrives(t, attacked, func() *wire.Batch {
		b := fleetBatch(0, 1)
		b.Origin, b.Collector = wire.Origin_ORIGIN_IMPORT, "zzz-evil"
		return b
	}())
	p.topic.arrives(t, attacked, func() *wire.Batch {
		b := fleetBatch(1, 1)
		b.Origin, b.Collector = wire.Origin_ORIGIN_IMPORT, "import/fleet"
		return b
	}())
	p.drain(t)
	if diff := cmp.Diff([]string{"1440 dead origin", "1441 stored "}, p.journal(t)[1440:]); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

// TestH6NothingMovesTheWatermarkBeyondTheClock by more than the two minutes that clocks
// may differ: neither what nobody opened, nor what an operator lets in.
func TestH6NothingMovesTheWatermarkBeyondTheClock(t *testing.T) {
	p, decided := declaredPipeline(t)
	now := fleetStart.Add(time.Hour + 5*time.Second)
	var err error
	fake := clock.NewFake(now)
	p.ledger, err = ledger.New(ledger.DefaultConfig(),
		ledger.Deps{Store: p.db, Clock: fake, Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	p.topic.liveHour(t, 0)
	future := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	send := func(slot time.Time) {
		b := fleetBatch(1, 0)
		b.SlotStartMs, b.Collector, b.WindowToMs = slot.UnixMilli(), "sim", math.MaxInt64
		p.topic.arrives(t, now, b)
	}
	send(future)
	p.drain(t)
	if got := reasons(p); !slices.Equal(got, []string{"origin"}) {
		t.Errorf("dead letters %v, want one of reason origin", got)
	}
	decided.Append(t, now, decisions.KindRun,
		fleetRun("r1", wire.SendsSimulated, "sim", fleetStart, future.AddDate(1, 0, 0)))
	send(future)
	send(fleetStart.Add(59 * time.Minute))
	send(fleetStart.Add(90 * time.Minute))
	for _, c := range []struct {
		after     time.Duration
		watermark time.Duration
		hours     int
	}{
		{0, time.Hour, 1},
		{40 * time.Second, time.Hour + 40*time.Second, 2},
		{2 * time.Hour, 90*time.Minute + fleetSlot, 2}, // the newest slot that is over
	} {
		fake.Advance(now.Add(c.after).Sub(fake.Now()))
		p.drain(t)
		status, err := p.ledger.Status(t.Context())
		if err != nil || len(status) != 1 || status[0].WatermarkMS != fleetStart.Add(c.watermark).UnixMilli() ||
			status[0].Hours != c.hours || status[0].DirtyHours != 0 {
			t.Errorf("after %s: status %+v, %v; want watermark %s after the start, %d hours", c.after, status, err,
				c.watermark, c.hours)
		}
		results, err := check.Run(t.Context(), p.ledger.Checks())
		if err != nil || !check.NoneFailed(results) {
			t.Errorf("after %s: checks %+v, %v", c.after, results, err)
		}
	}
}

// TestH6ASquatterOfAClustersNameKillsNobodysBatches: whose batches come first
// decides nothing; a cluster that nobody declared has none.
func TestH6ASquatterOfAClustersNameKillsNobodysBatches(t *testing.T) {
	p, decided := declaredPipeline(t)
	squat := liveBatch(7, 0)
	squat.SlotMs, squat.ClusterSlotMs = 60_000, 60_000
	p.topic.arrives(t, fleetStart.Add(time.Minute), squat)
	p.topic.arrives(t, fleetStart.Add(time.Minute), liveBatch(0, 0))
	b := liveBatch(1, 0)
	b.Cluster = "unheard-of"
	p.topic.arrives(t, fleetStart.Add(time.Minute), b)
	p.drain(t)
	decided.Append(t, fleetStart.Add(time.Hour), decisions.KindCluster,
		decisions.Cluster{Name: "unheard-of", SlotMS: 10_000})
	p.topic.arrives(t, fleetStart.Add(time.Hour), b)
	p.drain(t)
	if diff := cmp.Diff([]string{"0 dead slot_length", "1 stored ", "2 dead cluster", "3 stored "},
		p.journal(t)); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

// TestH6ASuggestedCommandIsSafeInAShell: a dead letter's error suggests a command with names that a stranger chose.
func TestH6ASuggestedCommandIsSafeInAShell(t *testing.T) {
	const hostile = `--data=$(echo reached)'"`
	p, _ := declaredPipeline(t)
	undeclared, unopened := liveBatch(0, 0), fleetBatch(0, 0)
	undeclared.Cluster, unopened.Collector = hostile, hostile
	for _, b := range []*wire.Batch{undeclared, unopened} {
		p.topic.arrives(t, fleetStart.Add(time.Minute), b)
	}
	p.drain(t)
	for i, want := range [][]string{
		{"inventory", "cluster", "--slot", "10s", "--data", "DIR", "--", hostile},
		{
			"import", "runs", "open", "--cluster", "fleet", "--sends", wire.Sends(unopened), "--collector", hostile, "--slot",
			"10s", "--from", "2026-03-02T00:00:00Z", "--to", "2026-03-02T00:00:10Z", "--data", "DIR",
		},
	} {
		letter, err := ingest.ParseDeadLetter(p.topic.dead[i])
		if err != nil {
			t.Fatal(err)
		}
		_, command, _ := strings.Cut(letter.Error, "with: gputally ")
		out, err := exec.CommandContext(t.Context(), "sh", "-c", `printf '%s\n' `+command).Output()
		if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(string(out)), "\n")); err != nil || diff != "" {
			t.Errorf("arguments of %s: %v (-want +got):\n%s", command, err, diff)
		}
	}
}

// TestH6BootAndSequenceAreNotBeyondTheAppend: a boot of the future would outrank
// every other (R1).
func TestH6BootAndSequenceAreNotBeyondTheAppend(t *testing.T) {
	p, _ := declaredPipeline(t)
	for node, change := range []func(*wire.Batch){
		func(b *wire.Batch) { b.BootMs = fleetStart.Add(fleetSlot + 2*time.Minute).UnixMilli() },
		func(b *wire.Batch) {
			b.BootMs = fleetStart.Add(fleetSlot + 2*time.Minute + time.Millisecond).UnixMilli()
		},
		func(b *wire.Batch) { b.Seq = 4<<16 - 1 },
		func(b *wire.Batch) { b.Seq = 4 << 16 },
		func(b *wire.Batch) { b.Seq = math.MaxUint64 },
	} {
		b := liveBatch(node, 0)
		change(b)
		p.topic.arrives(t, fleetStart.Add(fleetSlot), b)
	}
	p.drain(t)
	if diff := cmp.Diff([]string{"0 stored ", "1 dead early", "2 stored ", "3 dead sequence", "4 dead limits"},
		p.journal(t)); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

// TestH6EveryIngesterComesToTheSameVerdict: one that had read the decisions
// early, one that reads them late, and a replay into empty tables.
func TestH6EveryIngesterComesToTheSameVerdict(t *testing.T) {
	at := func(minutes int) time.Time {
		return fleetStart.AddDate(0, 0, 1).Add(time.Duration(minutes) * time.Minute)
	}
	p, decided := declaredPipeline(t)
	send := func(node, minute int, cluster string) {
		b := fleetBatch(node, 0)
		b.Origin, b.Collector, b.Cluster = wire.Origin_ORIGIN_IMPORT, "import/fleet", cluster
		p.topic.arrives(t, at(minute), b)
	}
	p.topic.arrives(t, at(0), liveBatch(0, 0))
	send(1, 1, "fleet")
	early := p.origins
	p.drain(t) // has read to here, and comes to each verdict as the message comes
	decided.Append(t, at(2), decisions.KindRun,
		fleetRun("r1", wire.SendsImport, "import/fleet", fleetStart, fleetStart.Add(time.Hour)))
	send(2, 2, "fleet")
	p.drain(t)
	decided.Append(t, at(4), decisions.KindRunEnd, decisions.RunEnd{ID: "r1"})
	send(3, 4, "fleet") // in flight as it ended
	send(4, 5, "fleet")
	send(5, 3, "fleet") // of another partition: appended earlier
	send(6, 5, "other")
	p.drain(t)
	decided.Append(t, at(6), decisions.KindRun, decisions.Run{
		ID: "r2", Cluster: "other", SlotMS: 10_000, Sends: wire.SendsImport, Collector: "import/fleet", From: fleetStart,
		To: fleetStart.Add(time.Hour), Hours: 1,
	})
	send(7, 6, "other")
	send(8, 67, "other")
	p.drain(t)
	want := []string{
		"0 stored ", "1 dead origin", "2 stored ", "3 stored ", "4 dead origin", "5 stored ", "6 dead origin", "7 stored ",
		"8 dead origin",
	}
	if diff := cmp.Diff(want, p.journal(t)); diff != "" {
		t.Fatalf("journal (-want +got):\n%s", diff)
	}
	for name, late := range map[string]ingest.Origins{
		"the same again":      early,
		"one that starts now": &decisionstest.Log{Topic: decided},
	} {
		p.origins = late
		for _, table := range []string{"batches", "clusters", "holds", "samples", "usage_hourly", "sightings"} {
			p.exec(t, "TRUNCATE TABLE "+table)
		}
		in, err := ingest.New(ingest.DefaultConfig(), ingest.Deps{
			Origins: late, DeadLetters: p.topic, Store: p.db, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler),
			Registry: prometheus.NewRegistry(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Replay(t.Context(), &rereader{slices.Clone(p.topic.msgs)}, p.db, nil); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, p.journal(t)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestLiveBatchesDoNotWaitForTheDecisions: where those are away what is not live
// waits, and nothing is lost.
func TestLiveBatchesDoNotWaitForTheDecisions(t *testing.T) {
	p, decided := declaredPipeline(t)
	log := &decisionstest.Log{Topic: decided}
	if err := log.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.origins, log.Reads, log.Away = log, 0, 2
	p.topic.arrives(t, fleetStart.Add(time.Minute), liveBatch(0, 0))
	p.drain(t)
	if diff := cmp.Diff([]string{"0 stored "}, p.journal(t)); diff != "" || log.Reads != 0 {
		t.Fatalf("a live batch asked %d times; journal (-want +got):\n%s", log.Reads, diff)
	}
	decided.Append(t, fleetStart, decisions.KindRun,
		fleetRun("r1", wire.SendsSimulated, "c001", fleetStart, fleetStart.Add(time.Hour)))
	p.topic.arrives(t, fleetStart.Add(time.Minute), fleetBatch(1, 0))
	fake, reg := clock.NewFake(time.Unix(1_800_000_000, 0)), prometheus.NewRegistry()
	in, err := ingest.New(ingest.DefaultConfig(), ingest.Deps{
		Consumer: p.topic, Origins: log, DeadLetters: p.topic, Store: p.db, Clock: fake, Log: slog.New(slog.DiscardHandler),
		Registry: reg,
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
		if got := p.journal(t); len(got) != 1 {
			t.Errorf("journal %v while the decisions are away", got)
		}
		fake.Advance(10 * time.Second)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Fatalf("ingest ended with %v, want the topic's end", err)
	}
	if diff := cmp.Diff([]string{"0 stored ", "1 stored "}, p.journal(t)); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]float64{"decisions passing": 2}, retries(t, reg)); diff != "" {
		t.Errorf("retries (-want +got):\n%s", diff)
	}
}

// TestH6WhoSpokeForAnotherIsFound: a batch in place of another collector's, one
// that came for a closed hour, and a GPU that another node listed minutes ago are
// counted, and listed by the check with node, collector and hour.
func TestH6WhoSpokeForAnotherIsFound(t *testing.T) {
	p, _ := declaredPipeline(t)
	p.topic.liveHour(t, 0)
	p.drain(t)
	took := liveBatch(0, 5) // ranks above: its boot is later
	took.Collector, took.BootMs = "c666", fleetStart.Add(time.Minute).UnixMilli()
	p.topic.arrives(t, fleetStart.Add(time.Hour), took)
	moved := liveBatch(1, 361)
	moved.Gpus[0].Uuid = "GPU-000"
	p.topic.arrives(t, fleetStart.Add(362*fleetSlot), moved)
	p.drain(t)
	found := func() []string {
		t.Helper()
		results, err := check.Run(t.Context(), p.ledger.Checks())
		if err != nil || !check.NoneFailed(results) {
			t.Fatalf("checks %+v, %v", results, err)
		}
		return slices.Sorted(
			slices.Values(results[slices.IndexFunc(results, func(r check.Result) bool { return r.Name == "C6" })].Notes))
	}
	want := []string{
		`cluster "fleet", GPU GPU-000 is listed by node "n001" within an hour of node "n000", hour 2026-03-02T01:00:00Z`,
		`cluster "fleet", node "n000", hour 2026-03-02T00:00:00Z: batches of collector "c666" replace those of collector "c000"`,
	}
	if diff := cmp.Diff(want, found()); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	late := liveBatch(0, 6)
	late.Collector, late.BootMs = "c000", fleetStart.Add(2*time.Minute).UnixMilli()
	p.topic.arrives(t, fleetStart.AddDate(0, 0, 5), late)
	p.drain(t)
	want = append(want,
		`cluster "fleet", node "n000", hour 2026-03-02T00:00:00Z: batches of collector "c000" arrived after the hour was closed, the last at 2026-03-07T00:00:00Z`)
	slices.Sort(want)
	if diff := cmp.Diff(want, found()); diff != "" {
		t.Errorf("findings after a late batch (-want +got):\n%s", diff)
	}
	if got := counter(t, p.reg, "gputally_ledger_findings_total"); got != 3 {
		t.Errorf("gputally_ledger_findings_total is %v, want 3", got)
	}
}

func counter(t *testing.T, reg *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// TestH6OriginsOfNobodyAreDead: an origin that the contract doesn't have passes
// under no run; stored, nothing could read the journal's row.
func TestH6OriginsOfNobodyAreDead(t *testing.T) {
	p, decided := declaredPipeline(t)
	at := fleetStart.AddDate(0, 0, 10)
	decided.Append(t, at, decisions.KindRun,
		fleetRun("r1", wire.SendsImport, decisions.AnyCollector, fleetStart, at.AddDate(1, 0, 0)))
	for i, origin := range []wire.Origin{5, 99, 129, 300, -1} {
		b := fleetBatch(1, i)
		b.Origin = origin
		p.topic.arrives(t, at, b)
	}
	p.drain(t)
	if diff := cmp.Diff(slices.Repeat([]string{"invalid"}, 5), reasons(p)); diff != "" {
		t.Errorf("dead letters (-want +got):\n%s", diff)
	}
	var rows []struct {
		Origin string `ch:"o"`
	}
	if err := p.db.Select(t.Context(), &rows, "SELECT CAST(origin, 'String') AS o FROM batches FINAL"); err != nil ||
		len(rows) != 5 {
		t.Errorf("%d rows of the journal can be read, want 5: %v", len(rows), err)
	}
}
