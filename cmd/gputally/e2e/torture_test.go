package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/cmd/gputally/demo"
	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
)

const (
	tortureKills      = 20
	torturePartitions = 12
	tortureMembers    = 3
	// rowsPerSlot is a little less than the stream's slots have.
	rowsPerSlot = 1250
	// mostAhead is how many messages the producer may be ahead of ingest.
	mostAhead = 20_000
	// standstill without a commit is a failure.
	standstill = 3 * time.Minute
)

// fromEnv is a number of the environment, else the default.
func fromEnv(t *testing.T, name string, value uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return value
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s is %q, want a number", name, text)
	}
	return n
}

// torture is one run: a broker process, a group of ingester processes, and two
// databases of one engine.
type torture struct {
	rows, kills, seed uint64
	clean, tortured   *store.DB
	broker            brokerProcess
	client            *broker.Client
	group             members
	stream            *deliveries
	random            *rand.Rand
	began             time.Time
}

// TestTorture delivers each batch one to three times, out of order and late,
// while the ingesters are killed and the group rebalances: the ledger must be,
// to the integer, that of the same batches delivered once and in order.
func TestTorture(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all runs it")
	}
	r := newTorture(t)
	t.Logf("%d rows, %d kills, seed %d", r.rows, r.kills, r.seed)
	r.cleanRun(t)
	r.lap(t, "clean run")
	r.killRun(t)
	r.lap(t, fmt.Sprintf("%d kills and %d restarts while %d messages of %d batches were ingested", r.group.kills,
		r.group.restarts, r.stream.delivered, r.stream.batches))
	passAll(t, r.tortured)
	r.compare(t)
	r.check(t)
	r.lap(t, "comparison and checks")
	t.Logf("most memory: an ingester %d MiB, the broker %d MiB, the engine %d MiB, this process %d MiB",
		r.group.peakBytes>>20, demo.PeakOf(strconv.Itoa(r.broker.cmd.Process.Pid))>>20,
		enginePeak(r.broker.cmd.Process.Pid)>>20, demo.PeakOf("self")>>20)
}

// enginePeak is the most memory of this process's child that isn't the broker.
func enginePeak(broker int) (most int64) {
	for _, child := range programtest.ChildrenOf(os.Getpid()) {
		if child != broker {
			most = max(most, demo.PeakOf(strconv.Itoa(child)))
		}
	}
	return most
}

func newTorture(t *testing.T) *torture {
	t.Helper()
	r := &torture{
		rows:   fromEnv(t, "GPUTALLY_TORTURE_ROWS", tortureRows),
		kills:  fromEnv(t, "GPUTALLY_TORTURE_KILLS", tortureKills),
		seed:   fromEnv(t, "GPUTALLY_TORTURE_SEED", uint64(clock.Real().Now().UnixNano())),
		clean:  storetest.Open(t),
		broker: newBrokerProcess(t),
		began:  clock.Real().Now(),
	}
	r.tortured = storetest.Open(t)
	r.stream = &deliveries{stream: newStream(r.seed, int(r.rows/rowsPerSlot)+1)}
	r.random = rand.New(rand.NewPCG(r.seed, 0))
	r.broker.start(t)
	t.Cleanup(func() { r.broker.stop(t) })
	cfg := broker.DefaultConfig()
	cfg.Brokers, cfg.SamplesPartitions = []string{r.broker.address}, torturePartitions
	r.client = broker.NewClient(cfg, quietLog())
	t.Cleanup(r.client.Close)
	if err := r.client.EnsureTopics(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.group = members{stderr: programtest.NewLogBook(), env: []string{
		memberBrokerEnv + "=" + r.broker.address, memberStoreEnv + "=unix://" + storetest.Socket(t),
		memberDatabaseEnv + "=" + r.tortured.Database(),
	}}
	t.Cleanup(r.group.end)
	return r
}

// lap tells how long a step took.
func (r *torture) lap(t *testing.T, step string) {
	t.Helper()
	now := clock.Real().Now()
	t.Logf("%s: %.1f s", step, now.Sub(r.began).Seconds())
	r.began = now
}

// inOrder hands an ingester each batch once, in the order they were made.
type inOrder struct {
	*stream
	offset int64
	values []broker.Message
	done   context.CancelFunc
}

func (o *inOrder) Fetch(ctx context.Context, limit int, _ time.Duration) (msgs []broker.Message, err error) {
	for len(o.values) < limit {
		due, more, err := o.encoded()
		if err != nil {
			return nil, err
		}
		for _, value := range due {
			o.values = append(o.values,
				broker.Message{Topic: broker.TopicSamples, Value: value, Offset: o.offset, Time: tortureStart})
			o.offset++
		}
		if !more {
			break
		}
	}
	if len(o.values) == 0 {
		o.done()
		return nil, ctx.Err()
	}
	n := min(limit, len(o.values))
	msgs, o.values = o.values[:n:n], o.values[n:]
	return msgs, nil
}

func (o *inOrder) Commit(context.Context, []broker.Message) error { return nil }

// noLetters fails where a batch of the stream can't be used.
type noLetters struct{}

func (noLetters) Produce(_ context.Context, msgs []broker.Message) error {
	return fmt.Errorf("%d batches of the stream are dead letters", len(msgs))
}

// cleanRun ingests the stream undisturbed.
func (r *torture) cleanRun(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	source := &inOrder{stream: newStream(r.seed, r.stream.slots), done: cancel}
	in, _ := tortureServices(t, source, noLetters{}, r.clean)
	if err := in.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if _, batches := r.stream.messages(); source.offset != int64(batches) {
		t.Fatalf("the stream has %d batches, counted %d", source.offset, batches)
	}
	passAll(t, r.clean)
}

// passAll brings a ledger up to date, as a process that has just started.
func passAll(t *testing.T, db *store.DB) {
	t.Helper()
	_, of := tortureServices(t, nil, nil, db)
	for dirty := 1; dirty > 0; {
		var err error
		if dirty, err = of.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// killRun produces and kills, until all that was produced is committed.
func (r *torture) killRun(t *testing.T) {
	t.Helper()
	for range tortureMembers {
		r.group.add(t)
	}
	total, _ := r.stream.messages()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var producing sync.WaitGroup
	producing.Go(func() {
		if err := r.produce(ctx); err != nil {
			cancel(err)
		}
	})
	for kill := range r.kills {
		r.awaitCommitted(ctx, t, total*kill/r.kills+r.random.Uint64N(max(1, total/r.kills)))
		if kill%3 == 2 {
			r.group.restart(t, r.random.IntN(tortureMembers))
		}
		r.group.kill(t, r.random.IntN(tortureMembers))
	}
	r.awaitCommitted(ctx, t, total)
	producing.Wait()
	if r.stream.delivered != total {
		t.Errorf("%d messages were produced, want %d", r.stream.delivered, total)
	}
	for len(r.group.running) > 0 {
		r.group.leave(t, 0)
	}
}

// produce sends the stream's copies, a little ahead of ingest.
func (r *torture) produce(ctx context.Context) error {
	producer := r.client.Producer()
	for more := true; more; {
		var due []delivery
		var err error
		if due, more, err = r.stream.slotDue(); err != nil {
			return err
		}
		msgs := make([]broker.Message, len(due))
		for i, d := range due {
			msgs[i] = broker.Message{Topic: broker.TopicSamples, Key: []byte(d.node), Value: d.value}
		}
		if err := producer.Produce(ctx, msgs); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
		for r.committed(ctx)+mostAhead < r.stream.delivered {
			if err := clock.Sleep(ctx, clock.Real(), programtest.CloseLook); err != nil {
				return err
			}
		}
	}
	return nil
}

// committed is how many messages the group has put behind it; 0 where a broker
// that is busy doesn't say.
func (r *torture) committed(ctx context.Context) (n uint64) {
	offsets, err := r.client.Offsets(ctx, broker.TopicSamples, ingest.DefaultConfig().Group)
	if err != nil {
		return 0
	}
	for _, o := range offsets {
		n += uint64(max(o.Committed, 0))
	}
	return n
}

// awaitCommitted waits for the group to have put so many messages behind it.
func (r *torture) awaitCommitted(ctx context.Context, t *testing.T, least uint64) {
	t.Helper()
	last, since := uint64(0), clock.Real().Now()
	for {
		n := r.committed(ctx)
		if n >= least {
			return
		}
		if err := clock.Sleep(ctx, clock.Real(), programtest.CloseLook); err != nil {
			t.Fatalf("wait for %d messages: %v", least, errors.Join(err, context.Cause(ctx)))
		}
		if now := clock.Real().Now(); n > last {
			last, since = n, now
		} else if now.Sub(since) > standstill {
			t.Fatalf("no commit within %s at message %d, want %d\n%s", standstill, n, least, r.group.log())
		}
	}
}

// Sums over all that a database holds, copies and superseded rows apart. inputs
// and version count journal rows, of which there is one per copy.
const (
	sumUsage   = `SELECT count() AS rows, sum(cityHash64(tuple(* EXCEPT (inputs, version)))) AS hash FROM usage_hourly FINAL`
	sumHolds   = `SELECT count() AS rows, sum(cityHash64(tuple(*))) AS hash FROM holds FINAL`
	sumSamples = `SELECT count() AS rows, sum(cityHash64(tuple(*))) AS hash FROM samples FINAL`
	sumEvents  = `SELECT count() AS rows, sum(cityHash64(tuple(*))) AS hash FROM events FINAL`
	sumBatches = `SELECT count() AS rows, sum(cityHash64(*)) AS hash FROM (SELECT DISTINCT status, collector, boot_ms, seq, hash, hold_rows FROM batches)`
)

// tableSum is what a table comes to.
type tableSum struct {
	Rows uint64 `ch:"rows"`
	Hash uint64 `ch:"hash"`
}

func tableSums(t *testing.T, db *store.DB) map[string]tableSum {
	t.Helper()
	out := map[string]tableSum{}
	for table, sql := range map[string]string{
		"usage_hourly": sumUsage, "holds": sumHolds, "samples": sumSamples,
		"events": sumEvents, "batches": sumBatches,
	} {
		var rows []tableSum
		if err := db.Select(t.Context(), &rows, sql); err != nil {
			t.Fatalf("sum up %s: %v", table, err)
		}
		out[table] = rows[0]
	}
	return out
}

const differingHours = `
SELECT toString(hour) || ' ' || gpu AS line FROM
(
    SELECT hour, gpu, cityHash64(tuple(* EXCEPT (inputs, version))) AS hash FROM {clean:Identifier}.usage_hourly FINAL
    UNION ALL
    SELECT hour, gpu, cityHash64(tuple(* EXCEPT (inputs, version))) AS hash FROM {tortured:Identifier}.usage_hourly FINAL
)
GROUP BY hour, gpu HAVING count() != 2 OR min(hash) != max(hash) ORDER BY hour, gpu LIMIT 20`

// compare holds every row of the tortured run against the clean one's.
func (r *torture) compare(t *testing.T) {
	t.Helper()
	clean := tableSums(t, r.clean)
	if diff := cmp.Diff(clean, tableSums(t, r.tortured)); diff != "" {
		var rows []struct {
			Line string `ch:"line"`
		}
		if err := r.clean.Select(t.Context(), &rows, differingHours, store.Named("clean", r.clean.Database()),
			store.Named("tortured", r.tortured.Database())); err != nil {
			t.Error(err)
		}
		t.Errorf("tables (-clean +tortured):\n%s\nGPU-hours that differ: %v", diff, rows)
	}
	if clean["holds"].Rows < r.rows || clean["usage_hourly"].Rows == 0 {
		t.Errorf("clean run: %+v, want %d rows or more", clean, r.rows)
	}
	t.Logf("compared with %d hold rows, %d GPU-hours, %d samples, %d batches", clean["holds"].Rows,
		clean["usage_hourly"].Rows, clean["samples"].Rows, clean["batches"].Rows)
}

// check carries out C1 to C6 and C9 on the tortured ledger.
func (r *torture) check(t *testing.T) {
	t.Helper()
	_, of := tortureServices(t, nil, nil, r.tortured)
	results, err := check.Run(t.Context(), append(ingest.Checks(ingest.CheckDeps{
		Store: r.tortured,
		Offsets: func(ctx context.Context) ([]broker.PartitionOffsets, error) {
			return r.client.Offsets(ctx, broker.TopicSamples, ingest.DefaultConfig().Group)
		},
		Spools: func(context.Context) (all []ingest.SpoolState, err error) {
			for collector, n := range r.stream.seqs {
				all = append(all, ingest.SpoolState{Collector: collector, Appended: n, Cursor: n})
			}
			return all, nil
		},
	}), of.Checks()...))
	if err != nil {
		t.Fatal(err)
	}
	for _, res := range results {
		t.Logf("%s: %s", res.Name, res.Figures)
		if !res.OK || res.Checked == 0 {
			t.Errorf("%s fails: %+v", res.Name, res)
		}
	}
}
