package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/collector"
	"github.com/gputally/gputally/collector/source/sim"
	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions/decisionstest"
	"github.com/gputally/gputally/internal/store/storetest"
)

const (
	// brokerDirEnv and brokerListenEnv make the test binary the broker of
	// TestKilledBrokerLosesNothing.
	brokerDirEnv    = "GPUTALLY_TEST_BROKER_DIR"
	brokerListenEnv = "GPUTALLY_TEST_BROKER_LISTEN"

	// brokerKills are spread over a minute, at random; shortKills are those of a
	// short run.
	brokerKills   = 12
	shortKills    = 2
	leastLife     = 2 * time.Second
	randomLife    = 5 * time.Second
	shortSession  = time.Second // what a dead member holds up its group for
	simulatedStep = 60          // slots per writeEvery, of a minute each
	writeEvery    = 500 * time.Millisecond
)

const published = "gputally_collector_messages_published_total"

// TestBrokerProcess is a broker that can be killed. It ends with its parent.
func TestBrokerProcess(t *testing.T) {
	dir := os.Getenv(brokerDirEnv)
	if dir == "" {
		t.Skip("is the child of TestKilledBrokerLosesNothing")
	}
	embedded, err := broker.StartEmbedded(broker.EmbeddedOptions{
		Dir: dir, Listen: os.Getenv(brokerListenEnv), Log: quietLog(), MinSessionTimeout: shortSession / 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("broker on", embedded.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := embedded.Close(); err != nil {
		t.Error(err)
	}
}

// brokerProcess is a broker with a directory and an address that outlive it.
type brokerProcess struct {
	dir, address string
	cmd          *exec.Cmd
	stdin        io.Closer
}

func newBrokerProcess(t *testing.T) brokerProcess {
	dir := t.TempDir()
	return brokerProcess{dir: filepath.Join(dir, "kafka"), address: "unix:" + filepath.Join(dir, "kafka.sock")}
}

// start runs the broker until it listens.
func (b *brokerProcess) start(t *testing.T) {
	t.Helper()
	b.cmd = exec.Command(os.Args[0], "-test.run=^TestBrokerProcess$")
	b.cmd.Env = append(os.Environ(), brokerDirEnv+"="+b.dir, brokerListenEnv+"="+b.address)
	b.cmd.Stderr = os.Stderr
	stdin, err := b.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.stdin = stdin
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "broker on %s", &b.address); err == nil {
			return
		}
	}
	t.Fatalf("the broker ended before it listened: %v", b.cmd.Wait())
}

// kill ends it at whatever instruction it is.
func (b *brokerProcess) kill(t *testing.T) {
	t.Helper()
	if err := b.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var ended *exec.ExitError
	if err := b.cmd.Wait(); !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the broker had ended before it was killed: %v", err)
	}
}

// stop ends it in order.
func (b *brokerProcess) stop(t *testing.T) {
	t.Helper()
	if err := errors.Join(b.stdin.Close(), b.cmd.Wait()); err != nil {
		t.Errorf("the broker ended with %v", err)
	}
}

// brokerRig is a simulated fleet's collector and an ingester, in this process and
// in real time, on both sides of a broker process.
type brokerRig struct {
	*scrapeRig // all but its clock
	broker     brokerProcess
	collector  *collector.Collector
	from       time.Time
}

func newBrokerRig(t *testing.T) *brokerRig {
	t.Helper()
	r := &brokerRig{
		scrapeRig: &scrapeRig{db: storetest.Open(t), reg: prometheus.NewRegistry()},
		broker:    newBrokerProcess(t),
		from:      time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC),
	}
	r.broker.start(t)
	t.Cleanup(func() { r.broker.stop(t) })
	r.client = brokerClient(r.broker.address, clock.Real())
	t.Cleanup(r.client.Close)
	if err := r.client.EnsureTopics(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg := sim.DefaultConfig()
	cfg.WindowFrom, cfg.WindowTo = r.from, r.from.AddDate(0, 2, 0)
	src, err := sim.New(cfg, sim.Deps{Registerer: r.reg})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "spool")
	if r.spool, err = spool.Open(dir,
		spool.Options{Policy: spool.Block, Describe: collector.Describe, Log: quietLog()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.spool.Close(); err != nil {
			t.Error(err)
		}
	})
	of := collector.DefaultConfig()
	of.Cluster, of.Collector, of.Slot, of.SpoolDir = cfg.Cluster, "col-1", time.Minute, dir
	r.collector, err = collector.New(of, collector.Deps{
		Source: src, Producer: r.client.Producer(), Spool: r.spool, Clock: clock.Real(), Log: quietLog(), Registry: r.reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ingest is the ingester, ready to run.
func (r *brokerRig) ingest(t *testing.T) func(context.Context) error {
	t.Helper()
	cfg := ingest.DefaultConfig()
	consumer, err := r.client.Consumer(cfg.Group, broker.TopicSamples,
		broker.ConsumerOptions{SessionTimeout: shortSession})
	if err != nil {
		t.Fatal(err)
	}
	in, err := ingest.New(cfg, ingest.Deps{
		Consumer: consumer, Origins: &decisionstest.Open{}, DeadLetters: r.client.Producer(), Store: r.db,
		Clock: clock.Real(), Log: quietLog(), Registry: r.reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context) error { return errors.Join(in.Run(ctx), consumer.Close()) }
}

// write has the collector spool some slots twice a second until ctx ends.
func (r *brokerRig) write(ctx context.Context) error {
	for to := r.from; ; {
		to = to.Add(simulatedStep * time.Minute)
		if err := r.collector.Backfill(ctx, r.from, to, nil); ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
		if clock.Sleep(ctx, clock.Real(), writeEvery) != nil {
			return nil
		}
	}
}

// TestKilledBrokerLosesNothing kills the broker every few seconds for a minute (twice in a short run),
// while a collector publishes and an ingester reads: afterwards each number that
// the spool took is in the journal, and C1 to C4 hold.
func TestKilledBrokerLosesNothing(t *testing.T) {
	t.Parallel() // it waits
	r := newBrokerRig(t)
	r.serve(t, r.ingest(t), r.collector.Publish)
	seed := uint64(clock.Real().Now().UnixNano())
	t.Logf("kill points by seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	writing, stopWriting := context.WithCancel(t.Context())
	defer stopWriting()
	var writer sync.WaitGroup
	writer.Go(func() {
		if err := r.write(writing); err != nil {
			t.Errorf("write: %v", err)
		}
	})
	kills := brokerKills
	if testing.Short() {
		kills = shortKills
	}
	for range kills {
		sent := r.counter(t, published)
		programtest.Eventually(t, "the collector publishes", func() bool { return r.counter(t, published) > sent })
		if err := clock.Sleep(t.Context(), clock.Real(),
			leastLife+time.Duration(random.Int64N(int64(randomLife)))); err != nil {
			t.Fatal(err)
		}
		r.broker.kill(t)
		r.broker.start(t)
	}
	stopWriting()
	writer.Wait()
	r.checkAll(t)
	t.Logf("%d kills", kills)
}

// checkAll waits until all is journalled and carries out C1 to C4.
func (r *brokerRig) checkAll(t *testing.T) {
	t.Helper()
	offsets := func(ctx context.Context) ([]broker.PartitionOffsets, error) {
		return r.client.Offsets(ctx, broker.TopicSamples, ingest.DefaultConfig().Group)
	}
	var sent int64
	programtest.Eventually(t, "ingest has read all that was spooled", func() bool {
		if r.spool.Stats().Records > 0 {
			return false
		}
		all, err := offsets(t.Context())
		if err != nil {
			t.Logf("asking again: %v", err) // on a connection to a broker that is no more
			return false
		}
		lag := int64(0)
		sent = 0
		for _, o := range all {
			lag, sent = lag+o.Lag(), sent+o.Last
		}
		return lag == 0
	})
	st := r.spool.Stats()
	results, err := check.Run(t.Context(), ingest.Checks(ingest.CheckDeps{
		Store: r.db, Offsets: offsets,
		Spools: func(context.Context) ([]ingest.SpoolState, error) {
			return []ingest.SpoolState{{
				Collector: "col-1", Appended: st.Appended, Cursor: st.Cursor, Remaining: st.Records,
				Dropped: st.Dropped,
			}}, nil
		},
	}))
	if err != nil {
		t.Fatal(err)
	}
	for _, res := range results {
		t.Logf("%s: %s", res.Name, res.Figures)
		if !res.OK {
			t.Errorf("%s fails: %+v", res.Name, res)
		}
		var numbers, boots, missing uint64
		if res.Name == "C4" {
			_, err := fmt.Sscanf(res.Figures, "%d sequence numbers in %d boot, %d missing", &numbers, &boots, &missing)
			if err != nil || numbers != st.Appended || boots != 1 || missing != 0 {
				t.Errorf("C4 says %q, want %d sequence numbers and none missing", res.Figures, st.Appended)
			}
		}
	}
	if sent < int64(st.Appended) || st.Dropped > 0 {
		t.Errorf("%d messages in the topic, %d spooled, %d dropped", sent, st.Appended, st.Dropped)
	}
	t.Logf("%d batches spooled, %d messages in the topic", st.Appended, sent)
}
