package e2e

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/demo"
	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions/decisionstest"
	"github.com/gputally/gputally/internal/store"
)

// These make the test binary a member of TestTorture's group.
const (
	memberBrokerEnv   = "GPUTALLY_TEST_MEMBER_BROKER"
	memberStoreEnv    = "GPUTALLY_TEST_MEMBER_STORE"
	memberDatabaseEnv = "GPUTALLY_TEST_MEMBER_DATABASE"
)

const (
	// memberChunk is small: there are many places to be killed at.
	memberChunk = 300
	// memberPass is how often a member's ledger looks for dirty hours, beside
	// those of the others.
	memberPass = 10 * time.Second
)

// TestTortureMember is an ingester with a ledger, in a process that can be
// killed. It ends in order with its standard input.
func TestTortureMember(t *testing.T) {
	address := os.Getenv(memberBrokerEnv)
	if address == "" {
		t.Skip("is a child of TestTorture")
	}
	db, err := store.Open(t.Context(),
		store.Options{Address: os.Getenv(memberStoreEnv), Database: os.Getenv(memberDatabaseEnv)})
	if err != nil {
		t.Fatal(err)
	}
	client := brokerClient(address, clock.Real())
	consumer, err := client.Consumer(ingest.DefaultConfig().Group, broker.TopicSamples, broker.ConsumerOptions{
		SessionTimeout: shortSession, RebalanceTimeout: 2 * shortSession, MaxBytes: app.FetchBytes,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is the parent's word
		cancel()
	}()
	in, of := tortureServices(t, consumer, client.Producer(), db)
	var passes sync.WaitGroup
	passes.Go(func() {
		if err := of.Run(ctx); err != nil {
			t.Errorf("ledger: %v", err)
		}
	})
	err = in.Run(ctx)
	cancel()
	passes.Wait()
	client.Close()
	if err := errors.Join(err, consumer.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// tortureServices are an ingester of small chunks and a ledger.
func tortureServices(t *testing.T, consumer ingest.Consumer, letters ingest.Producer,
	db *store.DB,
) (*ingest.Ingester, *ledger.Ledger) {
	t.Helper()
	log, reg := slog.New(slog.NewTextHandler(os.Stderr,
		&slog.HandlerOptions{Level: slog.LevelError})), prometheus.NewRegistry()
	cfg := ingest.DefaultConfig()
	cfg.ChunkRecords = memberChunk
	in, err := ingest.New(cfg, ingest.Deps{
		Consumer: consumer, Origins: &decisionstest.Open{}, DeadLetters: letters, Store: db, Clock: clock.Real(), Log: log,
		Registry: reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	passing := ledger.DefaultConfig()
	passing.Interval = memberPass
	of, err := ledger.New(passing, ledger.Deps{Store: db, Clock: clock.Real(), Log: log, Registry: reg})
	if err != nil {
		t.Fatal(err)
	}
	return in, of
}

// members are the group: processes that come and go.
type members struct {
	env       []string
	running   []*member
	peakBytes int64
	stderr    *programtest.LogBook
	kills     int
	restarts  int
}

type member struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// add starts one more member.
func (m *members) add(t *testing.T) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestTortureMember$")
	cmd.Env = append(os.Environ(), m.env...)
	cmd.Stderr = m.stderr
	cmd.Stdout = m.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m.running = append(m.running, &member{cmd, stdin})
}

// take removes a member and returns it; the most memory that one ever took is kept.
func (m *members) take(i int) *member {
	taken := m.running[i]
	m.peakBytes = max(m.peakBytes, demo.PeakOf(strconv.Itoa(taken.cmd.Process.Pid)))
	m.running = append(m.running[:i:i], m.running[i+1:]...)
	return taken
}

// kill ends a member at whatever instruction it is; another one comes.
func (m *members) kill(t *testing.T, i int) {
	t.Helper()
	killed := m.take(i)
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var ended *exec.ExitError
	if err := killed.cmd.Wait(); !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("a member had ended before it was killed: %v\n%s", err, m.log())
	}
	m.kills++
	m.add(t)
}

// restart has a member leave in order; another one comes.
func (m *members) restart(t *testing.T, i int) {
	t.Helper()
	m.leave(t, i)
	m.restarts++
	m.add(t)
}

func (m *members) leave(t *testing.T, i int) {
	t.Helper()
	left := m.take(i)
	if err := errors.Join(left.stdin.Close(), left.cmd.Wait()); err != nil {
		t.Fatalf("a member that was asked to leave ended with %v\n%s", err, m.log())
	}
}

func (m *members) log() string {
	text, _ := m.stderr.Read()
	return programtest.TailOf(text)
}

// end kills those that are left, where a test ends early.
func (m *members) end() {
	for _, left := range m.running {
		_ = left.cmd.Process.Kill() // may have ended
		_ = left.cmd.Wait()
	}
}
