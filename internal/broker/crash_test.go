package broker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gputally/gputally/internal/broker/brokertest"
)

// crashDirVar makes the test binary the child of TestKilledBrokerKeepsAcknowledged.
const crashDirVar = "GPUTALLY_TEST_BROKER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDirVar); dir != "" {
		fmt.Fprintln(os.Stderr, produceForever(dir))
		os.Exit(1)
	}
	if dir := os.Getenv(agedDirVar); dir != "" {
		fmt.Fprintln(os.Stderr, ageAndHang(dir))
		os.Exit(1)
	}
	if addr := os.Getenv(memberVar); addr != "" {
		fmt.Fprintln(os.Stderr, consumeForever(addr))
		os.Exit(1)
	}
	if path := os.Getenv(strangerVar); path != "" {
		knock(path)
		os.Exit(0)
	}
	code := m.Run()
	brokertest.Stop()
	os.Exit(code)
}

// produceForever prints a line for every acknowledged message.
func produceForever(dir string) error {
	e, err := StartEmbedded(EmbeddedOptions{Dir: dir, Log: quiet()})
	if err != nil {
		return err
	}
	config := DefaultConfig()
	config.Brokers = []string{e.Addr()}
	c := NewClient(config, quiet())
	ctx := context.Background()
	if err := c.EnsureTopics(ctx); err != nil {
		return err
	}
	producer := c.Producer()
	for i := 0; ; i += 20 {
		msgs := samples(i, i+20)
		if err := producer.Produce(ctx, msgs); err != nil {
			return err
		}
		for _, m := range msgs {
			fmt.Println(string(m.Value))
		}
	}
}

func TestKilledBrokerKeepsAcknowledged(t *testing.T) {
	dir := t.TempDir()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), crashDirVar+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	acknowledged := map[string]bool{}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		acknowledged[lines.Text()] = true
		if len(acknowledged) == 2000 {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = child.Wait()
	if len(acknowledged) < 2000 {
		t.Fatalf("child acknowledged %d messages before it ended, want 2000", len(acknowledged))
	}

	c := newTestClient(t, startBroker(t, dir).Addr(), nil)
	consumer := join(t, c, "ingest")
	ctx := testContext(t)
	for missing := len(acknowledged); missing > 0; missing = len(acknowledged) {
		msgs, err := consumer.Fetch(ctx, 10_000, 2*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if len(msgs) == 0 {
			t.Fatalf("%d acknowledged messages are not there after the restart", missing)
		}
		for _, m := range msgs {
			delete(acknowledged, string(m.Value))
		}
	}
}

// TestProduceOutlastsABrokerRestart on the embedded broker; Apache Kafka's is in
// TestBrokerKilledInMidStream, since each restart takes seconds.
func TestProduceOutlastsABrokerRestart(t *testing.T) {
	b := embeddedBroker(t, EmbeddedOptions{Listen: newSocket(t)})
	ctx := testContext(t)
	c := newTestClient(t, b.addr, nil)
	ensure(t, c)
	if err := c.Producer().Produce(ctx, samples(0, 10)); err != nil {
		t.Fatal(err)
	}
	consumer := join(t, c, "ingest")
	if err := consumer.Commit(ctx, fetchCount(t, consumer, 10)); err != nil {
		t.Fatal(err)
	}
	b.stop()
	down, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := c.Producer().Produce(down, samples(10, 20)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Produce without a broker: %v, want the deadline", err)
	}
	done := make(chan error)
	go func() { done <- c.Producer().Produce(ctx, samples(20, 30)) }()
	b.start(t)
	if err := <-done; err != nil {
		t.Errorf("Produce across the restart: %v", err)
	}
	commitUntilHeard(t, consumer)
	if n := testutil.ToFloat64(c.metrics.rebalances.WithLabelValues(TopicSamples, "ingest")); n < 2 {
		t.Errorf("rebalances counter is %v, want 2 or more", n)
	}
}

// commitUntilHeard fetches and commits until a commit succeeds: the first may
// still belong to the generation that died with the broker.
func commitUntilHeard(tb testing.TB, consumer *Consumer) {
	tb.Helper()
	for {
		err := consumer.Commit(testContext(tb), fetchCount(tb, consumer, 10))
		if err == nil {
			return
		}
		if !errors.Is(err, ErrNotAssigned) {
			tb.Fatalf("Commit after the restart: %v", err)
		}
	}
}

func BenchmarkProduce(b *testing.B) {
	ctx := context.Background()
	c := newTestClient(b, startBroker(b, b.TempDir()).Addr(), nil)
	ensure(b, c)
	producer := c.Producer()
	msgs := samples(0, 5000)
	for i := range msgs {
		msgs[i].Value = fmt.Appendf(make([]byte, 0, 512), "%0512d", i)
	}
	b.ResetTimer()
	for b.Loop() {
		if err := producer.Produce(ctx, msgs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*float64(len(msgs))/b.Elapsed().Seconds(), "messages/s")
}

func BenchmarkFetch100k(b *testing.B) {
	c := newTestClient(b, startBroker(b, b.TempDir()).Addr(), nil)
	ensure(b, c)
	for i := 0; i < 100_000; i += 10_000 {
		if err := c.Producer().Produce(context.Background(), samples(i, i+10_000)); err != nil {
			b.Fatal(err)
		}
	}
	round := 0
	b.ResetTimer()
	for b.Loop() {
		round++
		fetchCount(b, join(b, c, fmt.Sprintf("bench-%d", round)), 100_000)
	}
	b.ReportMetric(float64(b.N)*100_000/b.Elapsed().Seconds(), "messages/s")
}

// A LOCK that is a symbolic link would make and lock a file elsewhere.
func TestALockThatIsALinkIsRefused(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Symlink(elsewhere, filepath.Join(dir, "LOCK")); err != nil {
		t.Fatal(err)
	}
	if e, err := StartEmbedded(EmbeddedOptions{Dir: dir, Log: quiet()}); err == nil {
		_ = e.Close()
		t.Error("started")
	}
	if _, err := os.Lstat(elsewhere); err == nil {
		t.Error("a file was made elsewhere")
	}
}

// TestEmbeddedBrokerWantsItsPassword: without it the broker tells and takes nothing.
func TestEmbeddedBrokerWantsItsPassword(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // as it is started again, too
		testPassword(t, dir)
	}
}

func testPassword(t *testing.T, dir string) {
	t.Helper()
	embedded, err := StartEmbedded(EmbeddedOptions{Dir: dir, Protected: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := embedded.Close(); err != nil {
			t.Error(err)
		}
	}()
	try := func(password string) error {
		cfg := DefaultConfig()
		cfg.Brokers, cfg.SASL = []string{embedded.Addr()}, EmbeddedSASL(password)
		client := NewClient(cfg, slog.New(slog.DiscardHandler))
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		return client.EnsureTopics(ctx)
	}
	for _, wrong := range []string{"", "wrong"} {
		if err := try(wrong); err == nil {
			t.Errorf("a client with the password %q was let in", wrong)
		}
	}
	if err := try(embedded.Password()); err != nil {
		t.Error(err)
	}
}
