package ingest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions/decisionstest"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
)

// What an ingester's process is told.
const (
	memberBrokerEnv   = "GPUTALLY_TEST_BROKER"
	memberSocketEnv   = "GPUTALLY_TEST_SOCKET"
	memberDatabaseEnv = "GPUTALLY_TEST_DATABASE"
)

const (
	groupMembers    = 3
	groupPartitions = 12
	groupRounds     = 8
	groupNodes      = 24
	slotsPerRound   = 60
	groupSession    = 2 * time.Second // how long a killed member keeps its partitions
)

// TestIngesterProcess is one ingester of a group, for tests that kill it. It
// leaves the group in order when its standard input ends.
func TestIngesterProcess(t *testing.T) {
	address := os.Getenv(memberBrokerEnv)
	if address == "" {
		t.Skip("runs in a process of its own, for other tests")
	}
	log := slog.New(slog.DiscardHandler)
	db, err := store.Open(t.Context(),
		store.Options{Address: "unix://" + os.Getenv(memberSocketEnv), Database: os.Getenv(memberDatabaseEnv)})
	if err != nil {
		t.Fatal(err)
	}
	cfg := ingest.DefaultConfig()
	cfg.ChunkRecords = 100
	client := broker.NewClient(broker.Config{Brokers: []string{address}}, log)
	consumer, err := client.Consumer(cfg.Group, broker.TopicSamples, broker.ConsumerOptions{SessionTimeout: groupSession})
	if err != nil {
		t.Fatal(err)
	}
	in, err := ingest.New(cfg, ingest.Deps{
		Consumer: consumer, Origins: &decisionstest.Open{}, DeadLetters: client.Producer(), Store: db, Clock: clock.Real(),
		Log: log, Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	fmt.Println("member is ready")
	if err := errors.Join(in.Run(ctx), consumer.Close()); err != nil {
		t.Error(err)
	}
}

// groupMember is an ingester's process.
type groupMember struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

func startMember(t *testing.T, address, database string) *groupMember {
	t.Helper()
	m := &groupMember{cmd: exec.Command(os.Args[0], "-test.run=^TestIngesterProcess$")}
	m.cmd.Env = append(os.Environ(), memberBrokerEnv+"="+address, memberSocketEnv+"="+storetest.Socket(t),
		memberDatabaseEnv+"="+database, "GORACE=atexit_sleep_ms=0")
	m.cmd.Stderr = os.Stderr
	stdin, err := m.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := m.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m.stdin = stdin
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if lines.Text() == "member is ready" {
			go func() {
				for lines.Scan() {
					if lines.Text() != "PASS" {
						_, _ = fmt.Fprintln(os.Stderr, lines.Text())
					}
				}
			}()
			return m
		}
	}
	t.Fatalf("an ingester ended before it was ready: %v", m.cmd.Wait())
	return nil
}

// kill ends it at whatever instruction it is; it leaves no word to the group.
func (m *groupMember) kill() {
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
}

// stop has it drain and leave.
func (m *groupMember) stop(t *testing.T) {
	t.Helper()
	if err := errors.Join(m.stdin.Close(), m.cmd.Wait()); err != nil {
		t.Errorf("an ingester ended with %v", err)
	}
}

// pause stops its process until the group has gone on without it. What it holds
// then is others' by now, and it goes on where it was.
func (m *groupMember) pause(t *testing.T) {
	t.Helper()
	err := m.cmd.Process.Signal(syscall.SIGSTOP)
	err = errors.Join(err, clock.Sleep(t.Context(), clock.Real(), groupSession+time.Second),
		m.cmd.Process.Signal(syscall.SIGCONT))
	if err != nil {
		t.Errorf("pause an ingester: %v", err)
	}
}

// group is a broker of twelve partitions and a database, and ingesters that come
// and go between them.
type group struct {
	*pipeline
	client  *broker.Client
	address string
	slot    int // what was produced up to
}

func newGroup(t *testing.T) *group {
	t.Helper()
	g := &group{pipeline: newPipeline(t)}
	log := slog.New(slog.DiscardHandler)
	embedded, err := broker.StartEmbedded(broker.EmbeddedOptions{
		Dir: filepath.Join(t.TempDir(), "kafka"), Log: log,
		MinSessionTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = embedded.Close() })
	g.address = embedded.Addr()
	g.client = broker.NewClient(broker.Config{Brokers: []string{g.address}, SamplesPartitions: groupPartitions}, log)
	t.Cleanup(g.client.Close)
	if err := g.client.EnsureTopics(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g
}

// produce appends the next slots of all nodes, and one message of garbage.
func (g *group) produce(t *testing.T) {
	t.Helper()
	var msgs []broker.Message
	for range slotsPerRound {
		for node := range groupNodes {
			b := fleetBatch(node, g.slot)
			msgs = append(msgs, broker.Message{Topic: broker.TopicSamples, Key: []byte(b.Node), Value: encoded(t, b)})
		}
		g.slot++
	}
	msgs = append(msgs, broker.Message{Topic: broker.TopicSamples, Key: fmt.Append(nil, g.slot), Value: []byte("garbage")})
	if err := g.client.Producer().Produce(t.Context(), msgs); err != nil {
		t.Fatal(err)
	}
}

// offsets are the group's: how many are committed, and how many are yet to be read.
func (g *group) offsets(t *testing.T) (committed, lag int64) {
	t.Helper()
	all, err := g.client.Offsets(t.Context(), broker.TopicSamples, ingest.DefaultConfig().Group)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		committed, lag = committed+max(o.Committed, 0), lag+o.Lag()
	}
	return committed, lag
}

// await waits until the group's offsets are as wanted.
func (g *group) await(t *testing.T, what string, holds func(committed, lag int64) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for !holds(g.offsets(t)) {
		if err := clock.Sleep(ctx, clock.Real(), 50*time.Millisecond); err != nil {
			t.Fatalf("%s: not in two minutes", what)
		}
	}
}

// TestIngestersComeAndGo: three ingesters share twelve partitions; all along one
// of them is stopped, or killed at whatever instruction it is, and another
// started; or it stands still for longer than its session and goes on. Each offset is
// journalled once, and the ledger is that of one
// ingester which nothing happened to.
func TestIngestersComeAndGo(t *testing.T) {
	t.Parallel() // it waits for sessions to end
	rounds := groupRounds
	if testing.Short() {
		rounds = 4
	}
	g := newGroup(t)
	var members [groupMembers]*groupMember
	t.Cleanup(func() {
		for _, m := range members {
			if m != nil {
				m.kill()
			}
		}
	})
	for i := range members {
		members[i] = startMember(t, g.address, g.db.Database())
	}
	seed := uint64(clock.Real().Now().UnixNano())
	t.Logf("ends by seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var kills, pauses int
	for range rounds {
		before, _ := g.offsets(t)
		g.produce(t)
		g.await(t, "the group commits", func(committed, _ int64) bool { return committed > before })
		i := random.IntN(groupMembers)
		switch random.IntN(4) {
		case 0:
			members[i].stop(t)
		case 1:
			members[i].pause(t)
			pauses++
			continue
		default:
			members[i].kill()
			kills++
		}
		members[i] = startMember(t, g.address, g.db.Database())
	}
	g.await(t, "the group reads all", func(_, lag int64) bool { return lag == 0 })
	for i := range members {
		members[i].stop(t)
		members[i] = nil
	}
	if _, err := g.ledger.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.mustBeWhole(t, rounds)
	t.Logf("%d kills, %d pauses, %d stops", kills, pauses, rounds-kills-pauses)
}

// mustBeWhole holds journal, raw and ledger to what was produced.
func (g *group) mustBeWhole(t *testing.T, rounds int) {
	t.Helper()
	checks := append(ingest.Checks(ingest.CheckDeps{
		Store: g.db,
		Offsets: func(ctx context.Context) ([]broker.PartitionOffsets, error) {
			return g.client.Offsets(ctx, broker.TopicSamples, ingest.DefaultConfig().Group)
		},
		Spools: func(context.Context) ([]ingest.SpoolState, error) { return nil, nil },
	}), g.ledger.Checks()...)
	if diff := cmp.Diff(map[string]string{}, failedChecks(t, checks)); diff != "" {
		t.Errorf("failed checks (-want +got):\n%s", diff)
	}
	if got, want := len(g.journal(t)), groupNodes*g.slot+rounds; got != want {
		t.Errorf("journal has %d rows for %d messages", got, want)
	}
	clean := newPipeline(t)
	clean.topic.append(fleet(t, groupNodes, g.slot)...)
	clean.drain(t)
	if diff := cmp.Diff(clean.usage(t), g.usage(t)); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}
