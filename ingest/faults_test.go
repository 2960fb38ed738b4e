package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions/decisionstest"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/engine"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/wire"
)

// running is an ingester that works until the topic is read.
type running struct {
	reg  *prometheus.Registry
	done chan error
}

func (p *pipeline) start(t *testing.T, cfg ingest.Config, db ingest.Store, c clock.Clock) *running {
	t.Helper()
	r := &running{reg: prometheus.NewRegistry(), done: make(chan error, 1)}
	in, err := ingest.New(cfg, ingest.Deps{
		Consumer: p.topic, Origins: &decisionstest.Open{}, DeadLetters: p.topic, Store: db, Clock: c,
		Log: slog.New(slog.DiscardHandler), Registry: r.reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { r.done <- in.Run(t.Context()) }()
	return r
}

// read waits until the topic is read.
func (r *running) read(t *testing.T) {
	t.Helper()
	if err := <-r.done; err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Fatalf("ingest ended with %v, want the end of the topic", err)
	}
}

// retries is gputally_ingest_retries_total by step and class.
func retries(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "gputally_ingest_retries_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			out[labels["step"]+" "+labels["class"]] = m.GetCounter().GetValue()
		}
	}
	return out
}

// TestWhatClickHouseAnswersDecidesHowLongIngestWaits: trouble that passes is
// tried again soon, what someone has to look at later; nothing is skipped, and
// the offsets stay meanwhile.
func TestWhatClickHouseAnswersDecidesHowLongIngestWaits(t *testing.T) {
	type trouble struct {
		name  string
		fault fault
		class string
		pause time.Duration // before the second attempt
	}
	const soon, later = 100 * time.Millisecond, 5 * time.Second
	for _, c := range []trouble{
		{"too many parts", answer(500, 252, "TOO_MANY_PARTS"), "passing", soon},
		{"memory limit", answer(500, 241, "MEMORY_LIMIT_EXCEEDED"), "passing", soon},
		{"read only", answer(500, 242, "TABLE_IS_READ_ONLY"), "passing", soon},
		{"no space", answer(500, 243, "NOT_ENOUGH_SPACE"), "passing", soon},
		{"starting", answer(503, 0, ""), "passing", soon},
		{"refused", refuse, "passing", soon},
		{"answer lost", cut, "passing", soon},
		{"unknown table", answer(404, 60, "UNKNOWN_TABLE"), "refused", later},
		{"no such column", answer(404, 16, "NO_SUCH_COLUMN_IN_TABLE"), "refused", later},
		{"no right", answer(403, 497, "ACCESS_DENIED"), "refused", later},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPipeline(t)
			p.topic.append(fleet(t, 2, 20)...)
			proxy := newProxy(t, storetest.Socket(t))
			db := proxy.through(t, p.db)
			proxy.hurt(inserts("holds", 2, c.fault))
			fake := clock.NewFake(time.Unix(1_800_000_000, 0))
			r := p.start(t, ingest.DefaultConfig(), db, fake)
			for i := range 2 {
				if err := fake.BlockUntil(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
				if p.topic.committed != 0 {
					t.Errorf("committed %d while ClickHouse refuses", p.topic.committed)
				}
				fake.Advance(c.pause<<i - 1)
				if err := fake.BlockUntil(t.Context(), 1); err != nil { // still waits
					t.Fatal(err)
				}
				fake.Advance(1)
			}
			r.read(t)
			if diff := cmp.Diff(map[string]float64{"insert_holds " + c.class: 2}, retries(t, r.reg)); diff != "" {
				t.Errorf("retries (-want +got):\n%s", diff)
			}
			if _, err := p.ledger.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.mustPassChecks(t)
			if n := p.count(t, "holds"); n != 40 {
				t.Errorf("%d rows of raw, want 40", n)
			}
		})
	}
}

// TestClickHouseHangs: a request that is never answered ends with its
// connection, and the chunk with it is tried again.
func TestClickHouseHangs(t *testing.T) {
	p := newPipeline(t)
	p.topic.append(fleet(t, 2, 20)...)
	proxy := newProxy(t, storetest.Socket(t))
	db := proxy.through(t, p.db)
	held := make(chan struct{})
	proxy.hurt(inserts("batches", 1, hang(held)))
	r := p.start(t, ingest.DefaultConfig(), db, clock.Real())
	<-held
	if n := p.count(t, "holds"); n != 40 || p.topic.committed != 0 {
		t.Errorf("before the journal: %d rows of raw, committed %d, want 40 and 0", n, p.topic.committed)
	}
	if n, err := testutil.GatherAndCount(r.reg, "gputally_ingest_held_bytes"); err != nil || n != 1 {
		t.Errorf("held bytes: %d series, %v", n, err)
	}
	held <- struct{}{}
	r.read(t)
	if diff := cmp.Diff(map[string]float64{"insert_batches passing": 1}, retries(t, r.reg)); diff != "" {
		t.Errorf("retries (-want +got):\n%s", diff)
	}
	if _, err := p.ledger.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.mustPassChecks(t)
}

// TestAnAttemptHasAnEnd: ClickHouse took the connection and is silent, and so is
// the network.
func TestAnAttemptHasAnEnd(t *testing.T) {
	t.Parallel() // it waits for the attempt's limit
	p := newPipeline(t)
	p.topic.append(fleet(t, 2, 20)...)
	proxy := newProxy(t, storetest.Socket(t))
	db := proxy.through(t, p.db)
	proxy.hurt(inserts("holds", 1, func(_ http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server see that the client is gone
		<-r.Context().Done()
	}))
	reg := prometheus.NewRegistry()
	in, err := ingest.New(ingest.DefaultConfig(), ingest.Deps{
		Consumer: p.topic, Origins: &decisionstest.Open{}, DeadLetters: p.topic, Store: db, Clock: clock.Real(),
		Log: slog.New(slog.DiscardHandler), Registry: reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	in.SetAttemptLimit(5 * time.Second)
	if err := in.Run(t.Context()); !errors.Is(err, context.Canceled) {
		t.Fatalf("ingest ended with %v, want the end of the topic", err)
	}
	if diff := cmp.Diff(map[string]float64{"insert_holds passing": 1}, retries(t, reg)); diff != "" {
		t.Errorf("retries (-want +got):\n%s", diff)
	}
	if n := p.count(t, "holds"); n != 40 || p.topic.committed != 40 {
		t.Errorf("%d rows of raw, committed %d, want 40 of both", n, p.topic.committed)
	}
}

// TestLostAnswersLeaveNoCopies: every third insert is applied and its answer
// lost, on all tables.
func TestLostAnswersLeaveNoCopies(t *testing.T) {
	p := newPipeline(t)
	p.topic.append(fleet(t, 4, 400)...)
	proxy := newProxy(t, storetest.Socket(t))
	db := proxy.through(t, p.db)
	var seen, lost atomic.Int64
	proxy.hurt(func(statement string) fault {
		if !strings.HasPrefix(statement, "INSERT") || seen.Add(1)%3 != 0 {
			return nil
		}
		lost.Add(1)
		return cut
	})
	cfg := ingest.DefaultConfig()
	cfg.ChunkRecords = 50
	p.start(t, cfg, db, clock.Real()).read(t)
	if _, err := p.ledger.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if lost.Load() < 30 {
		t.Errorf("%d answers were lost, want 30 or more for this to mean anything", lost.Load())
	}
	p.mustPassChecks(t)
	clean := newPipeline(t)
	clean.topic.append(fleet(t, 4, 400)...)
	clean.drain(t)
	if diff := cmp.Diff(clean.usage(t), p.usage(t)); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

// engineEnv is how storetest makes a test binary serve the engine.
const engineEnv = "GPUTALLY_STORETEST_SOCKET"

// ownEngine is an engine that only this test has, for killing.
func ownEngine(t *testing.T) (*engine.Supervisor, string) {
	t.Helper()
	storetest.Library(t)
	dir, err := os.MkdirTemp("", "gputally-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "sock")
	s, err := engine.Supervise(t.Context(), engine.SuperviseOptions{
		Command: []string{binary}, Env: append(os.Environ(), engineEnv+"="+socket), Socket: socket,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s, socket
}

// TestClickHouseKilledInMidInsert: the engine's process is killed again and
// again while a request of an insert is on its way.
func TestClickHouseKilledInMidInsert(t *testing.T) {
	t.Parallel() // it waits for the engine's restarts
	const kills = 4
	supervisor, socket := ownEngine(t)
	db, err := store.Open(t.Context(), store.Options{Address: "unix://" + socket, Database: "killed"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := &pipeline{topic: &topic{}, db: db, ledger: newLedger(t, db)}
	p.topic.append(fleet(t, 4, 400)...)
	proxy := newProxy(t, socket)
	var seen, killed atomic.Int64
	proxy.hurt(func(statement string) fault {
		if !strings.HasPrefix(statement, "INSERT") || seen.Add(1)%7 != 0 || killed.Load() == kills {
			return nil
		}
		killed.Add(1)
		return func(w http.ResponseWriter, r *http.Request, forward http.HandlerFunc) {
			go func() { _ = syscall.Kill(supervisor.PID(), syscall.SIGKILL) }()
			forward(w, r)
		}
	})
	cfg := ingest.DefaultConfig()
	cfg.ChunkRecords = 100
	r := p.start(t, cfg, proxy.through(t, db), clock.Real())
	r.read(t)
	if killed.Load() != kills {
		t.Errorf("killed %d times, want %d", killed.Load(), kills)
	}
	if _, err := p.ledger.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.mustPassChecks(t)
	clean := newPipeline(t)
	clean.topic.append(fleet(t, 4, 400)...)
	clean.drain(t)
	if diff := cmp.Diff(clean.usage(t), p.usage(t)); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	t.Logf("%d kills, retries %v", killed.Load(), retries(t, r.reg))
}

// board is a node of 8 GPUs of 7 held instances each: what takes the most memory
// per byte of message.
func board(node, slot int) *wire.Batch {
	b := fleetBatch(node, slot)
	b.Gpus = nil
	for g := range 8 {
		gpu := &wire.Gpu{Uuid: fmt.Sprintf("GPU-%d-%d", node, g), Model: "NVIDIA H100 80GB HBM3", Slices: 7, Mig: true}
		for l := range uint32(7) {
			id, busy := fmt.Sprintf("gi%d", l), float64(l)/10
			gpu.Leaves = append(gpu.Leaves, &wire.Leaf{Id: id, Gi: &l, Slices: 1, Profile: "1g.10gb", GrEngineActive: &busy})
			gpu.Holds = append(gpu.Holds,
				&wire.Hold{Leaf: id, Owner: &wire.Owner{Namespace: "team", Pod: fmt.Sprintf("p%d", l)}})
		}
		b.Gpus = append(b.Gpus, gpu)
	}
	return b
}

// chunkHeapBytes is what one chunk of 8 MiB may take on the heap, beside its
// messages: decoded and settled it is 15 times as large.
const chunkHeapBytes = 144 << 20

// TestMemoryIsBoundedByTheChunk: while ClickHouse takes nothing, ingest holds
// one chunk, decoded and as columns, and fetches no more.
func TestMemoryIsBoundedByTheChunk(t *testing.T) {
	p := newPipeline(t)
	cfg := ingest.DefaultConfig()
	size := 0
	for slot := 0; size < 2*cfg.ChunkBytes; slot++ {
		data := encoded(t, board(slot%10, slot/10))
		size += len(data)
		p.topic.append(data)
	}
	began, release := make(chan struct{}, 1), make(chan struct{})
	before := heap()
	r := p.start(t, cfg, blocking{p.db, began, release}, clock.Real())
	<-began
	took := int64(heap()) - int64(before)
	var fetched float64
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "gputally_ingest_held_bytes" {
			fetched = f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Logf("%.1f MiB of messages fetched, %.1f MiB on the heap for a chunk of %.1f MiB", fetched/(1<<20),
		float64(took)/(1<<20), float64(cfg.ChunkBytes)/(1<<20))
	if took > chunkHeapBytes {
		t.Errorf("a chunk of %d bytes takes %d on the heap, want at most %d", cfg.ChunkBytes, took, chunkHeapBytes)
	}
	if fetched < float64(cfg.ChunkBytes) || p.topic.committed != 0 {
		t.Errorf("%.0f bytes held, committed %d: this test didn't fill a chunk", fetched, p.topic.committed)
	}
	close(release)
	r.read(t)
}

// blocking holds the last insert of a chunk until it is let go.
type blocking struct {
	*store.DB
	began, release chan struct{}
}

func (b blocking) Insert(ctx context.Context, table string, in proto.Input) error {
	if table == "batches" {
		select {
		case b.began <- struct{}{}:
		default:
		}
		<-b.release
	}
	return b.DB.Insert(ctx, table, in)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
