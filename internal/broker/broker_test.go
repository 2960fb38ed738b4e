package broker

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gputally/gputally/internal/broker/brokertest"
	"github.com/gputally/gputally/internal/clock"
)

func TestProduceFetchCommit(t *testing.T) { eachBroker(t, testProduceFetchCommit) }

func testProduceFetchCommit(t *testing.T, b *testBroker) {
	ctx := testContext(t)
	c := newTestClient(t, b.addr, nil)
	ensure(t, c)
	sent := samples(0, 1000)
	before := clock.Real().Now().Add(-time.Second)
	if err := c.Producer().Produce(ctx, sent); err != nil {
		t.Fatalf("Produce: %v", err)
	}
	consumer := join(t, c, "ingest")
	got := fetchCount(t, consumer, len(sent))

	bySlot := map[topicPartition]map[int64]Message{}
	for _, m := range sent {
		tp := topicPartition{m.Topic, m.Partition}
		if bySlot[tp] == nil {
			bySlot[tp] = map[int64]Message{}
		}
		bySlot[tp][m.Offset] = m
	}
	if len(bySlot) < 2 {
		t.Errorf("16 keys went to %d partitions, want several", len(bySlot))
	}
	for _, m := range got {
		want := bySlot[topicPartition{m.Topic, m.Partition}][m.Offset]
		ignore := cmpopts.IgnoreFields(Message{}, "Time", "FetchedAt")
		if diff := cmp.Diff(want, m, ignore); diff != "" {
			t.Fatalf("message at partition %d offset %d (-want +got):\n%s", m.Partition, m.Offset, diff)
		}
		if m.Time.Before(before) || m.Time.After(m.FetchedAt) {
			t.Errorf("Time %v is not between produce %v and fetch %v", m.Time, before, m.FetchedAt)
		}
	}
	if err := consumer.Commit(ctx, got); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	offsets, err := c.Offsets(ctx, TopicSamples, "ingest")
	if err != nil {
		t.Fatal(err)
	}
	var committed int64
	for _, p := range offsets {
		if p.First != 0 || (p.Last > 0 && p.Committed != p.Last) || p.Lag() != 0 {
			t.Errorf("offsets %+v, want all committed", p)
		}
		committed += max(p.Committed, 0)
	}
	if committed != 1000 {
		t.Errorf("committed %d, want 1000", committed)
	}
	for name, counter := range map[string]prometheus.Collector{
		"produced": c.metrics.produced.WithLabelValues(TopicSamples),
		"fetched":  c.metrics.fetched.WithLabelValues(TopicSamples, "ingest"),
	} {
		if got := testutil.ToFloat64(counter); got != 1000 {
			t.Errorf("%s counter is %v, want 1000", name, got)
		}
	}
}

func TestFetchWaitsOnlySoLong(t *testing.T) { eachBroker(t, testFetchWaitsOnlySoLong) }

func testFetchWaitsOnlySoLong(t *testing.T, b *testBroker) {
	c := newTestClient(t, b.addr, nil)
	ensure(t, c)
	consumer := join(t, c, "ingest")
	msgs, err := consumer.Fetch(testContext(t), 10, 50*time.Millisecond)
	if err != nil || len(msgs) != 0 {
		t.Errorf("Fetch of an empty topic = %d messages, %v, want none and no error", len(msgs), err)
	}
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	if _, err := consumer.Fetch(ctx, 10, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("Fetch with an ended context: %v, want context.Canceled", err)
	}
	if err := consumer.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := consumer.Fetch(testContext(t), 10, time.Minute); !errors.Is(err, ErrClosed) {
		t.Errorf("Fetch after Close: %v, want ErrClosed", err)
	}
}

func TestFetchLimitsAndKeepsTheRest(t *testing.T) { eachBroker(t, testFetchLimitsAndKeepsTheRest) }

func testFetchLimitsAndKeepsTheRest(t *testing.T, b *testBroker) {
	c := newTestClient(t, b.addr, nil)
	ensure(t, c)
	if err := c.Producer().Produce(testContext(t), samples(0, 100)); err != nil {
		t.Fatal(err)
	}
	consumer := join(t, c, "ingest")
	var all []Message
	for len(all) < 100 {
		msgs, err := consumer.Fetch(testContext(t), 7, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if len(msgs) > 7 {
			t.Fatalf("Fetch of at most 7 returned %d", len(msgs))
		}
		all = append(all, msgs...)
	}
	if diff := cmp.Diff(values(samples(0, 100)), values(all), anyOrder); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

func TestRestartKeepsMessagesAndCommits(t *testing.T) {
	eachBroker(t, testRestartKeepsMessagesAndCommits)
}

func testRestartKeepsMessagesAndCommits(t *testing.T, b *testBroker) {
	ctx := testContext(t)
	c := newTestClient(t, b.addr, nil)
	ensure(t, c)
	if err := c.Producer().Produce(ctx, samples(0, 500)); err != nil {
		t.Fatal(err)
	}
	consumer := join(t, c, "ingest")
	read := fetchCount(t, consumer, 200)
	if err := consumer.Commit(ctx, read); err != nil {
		t.Fatal(err)
	}
	if err := consumer.Close(); err != nil {
		t.Fatal(err)
	}
	b.stop()
	b.start(t)

	c = newTestClient(t, b.addr, nil)
	ensure(t, c)
	rest := fetchCount(t, join(t, c, "ingest"), 300)
	if diff := cmp.Diff(values(samples(0, 500)), append(values(read), values(rest)...), anyOrder); diff != "" {
		t.Errorf("values before and after the restart (-want +got):\n%s", diff)
	}
}

func TestEmbeddedRefusesSecondOwner(t *testing.T) {
	dir := t.TempDir()
	startBroker(t, dir)
	_, err := StartEmbedded(EmbeddedOptions{Dir: dir, Log: quiet()})
	if err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("second StartEmbedded: %v, want an error that says another process has the directory", err)
	}
}

func TestUncommittedComeAgain(t *testing.T) { eachBroker(t, testUncommittedComeAgain) }

func testUncommittedComeAgain(t *testing.T, b *testBroker) {
	ctx := testContext(t)
	c := newTestClient(t, b.addr, nil)
	ensure(t, c)
	if err := c.Producer().Produce(ctx, samples(0, 50)); err != nil {
		t.Fatal(err)
	}
	first := join(t, c, "ingest")
	fetchCount(t, first, 50)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again := fetchCount(t, join(t, c, "ingest"), 50)
	if diff := cmp.Diff(values(samples(0, 50)), values(again), anyOrder); diff != "" {
		t.Errorf("values fetched again (-want +got):\n%s", diff)
	}
}

func TestTwoMembersShareAndStaleCommitIsRefused(t *testing.T) {
	eachBroker(t, testTwoMembersShareAndStaleCommitIsRefused)
}

func testTwoMembersShareAndStaleCommitIsRefused(t *testing.T, b *testBroker) {
	ctx := testContext(t)
	c := newTestClient(t, b.addr, nil)
	ensure(t, c)
	if err := c.Producer().Produce(ctx, samples(0, 400)); err != nil {
		t.Fatal(err)
	}
	one := join(t, c, "ingest")
	all := fetchCount(t, one, 400)
	two := join(t, c, "ingest")
	for { // until the second member has partitions
		msgs, err := two.Fetch(ctx, 400, 100*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if len(msgs) > 0 {
			break
		}
	}
	if err := one.Commit(ctx, all); !errors.Is(err, ErrNotAssigned) {
		t.Errorf("Commit of a partition that moved: %v, want ErrNotAssigned", err)
	}
}

// TestAMemberThatDiesWhileItJoinsLosesItsPlace: its process is killed while the broker waits for the other members,
// before it answers the request to join. Its partitions go to the others when its session has ended.
func TestAMemberThatDiesWhileItJoinsLosesItsPlace(t *testing.T) {
	ctx := testContext(t)
	e := startWith(t, EmbeddedOptions{Dir: t.TempDir(), RetentionCheck: -1, MinSessionTimeout: time.Second})
	c := newTestClient(t, e.Addr(), nil)
	ensure(t, c)
	one := join(t, c, "ingest")
	if err := c.Producer().Produce(ctx, samples(0, 10)); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	read := func(n int) {
		for len(got) < n { // what was not committed is fetched again
			for _, value := range values(fetchCount(t, one, 1)) {
				got[value] = true
			}
		}
	}
	read(10)

	dead := dialRaw(t, e)
	member := kmsg.NewConsumerMemberMetadata()
	member.Topics = []string{TopicSamples}
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = new(dealt).balancers()[0].ProtocolName(), member.AppendTo(nil)
	joining := &kmsg.JoinGroupRequest{
		Version: 1, Group: "ingest", SessionTimeoutMillis: 1000, RebalanceTimeoutMillis: 5000, ProtocolType: "consumer",
		Protocols: []kmsg.JoinGroupRequestProtocol{protocol},
	}
	if _, err := dead.Write(kmsg.NewRequestFormatter().AppendRequest(nil, joining, 7)); err != nil {
		t.Fatal(err)
	}
	awaitRead(t, dead)
	_ = dead.Close()
	for testutil.ToFloat64(c.metrics.rebalances.WithLabelValues(TopicSamples, "ingest")) < 2 {
		pauseBriefly(t) // until it has its partitions
	}
	if err := c.Producer().Produce(ctx, samples(10, 400)); err != nil {
		t.Fatal(err)
	}
	read(400)
}

// testBroker is a broker under test. Both kinds are asked the same questions.
type testBroker struct {
	addr     string
	embedded bool
	// stop ends the broker without a word to anyone: Apache Kafka by SIGKILL.
	// start brings it back with what it has on disk, at the same address.
	stop  func()
	start func(tb testing.TB)
}

// eachBroker runs a test on the embedded broker and on Apache Kafka.
func eachBroker(t *testing.T, test func(t *testing.T, b *testBroker)) {
	t.Run("embedded", func(t *testing.T) { test(t, embeddedBroker(t, EmbeddedOptions{Listen: newSocket(t)})) })
	t.Run("apache", func(t *testing.T) { test(t, apacheBroker(t)) })
}

// eachForeignBroker is eachBroker for tests with clients that aren't ours.
func eachForeignBroker(t *testing.T, test func(t *testing.T, b *testBroker)) {
	t.Run("embedded", func(t *testing.T) { test(t, embeddedBroker(t, EmbeddedOptions{listen: foreignDoor})) })
	t.Run("apache", func(t *testing.T) { test(t, apacheBroker(t)) })
}

func apacheBroker(t *testing.T) *testBroker {
	t.Helper()
	k := brokertest.Kafka(t)
	return &testBroker{addr: k.Addr(), stop: k.Kill, start: k.Restart}
}

func embeddedBroker(t *testing.T, opt EmbeddedOptions) *testBroker {
	t.Helper()
	opt.Dir, opt.RetentionCheck = t.TempDir(), 20*time.Millisecond
	e := startWith(t, opt)
	b := &testBroker{addr: e.Addr(), embedded: true}
	b.stop = func() { _ = e.Close() }
	b.start = func(tb testing.TB) { e = startWith(tb, opt) }
	return b
}

func TestProduceTellsWhichMessagesFailed(t *testing.T) {
	eachBroker(t, testProduceTellsWhichMessagesFailed)
}

func testProduceTellsWhichMessagesFailed(t *testing.T, b *testBroker) {
	ctx := testContext(t)
	c := newTestClient(t, b.addr, func(config *Config) {
		config.MaxMessageBytes, config.BatchBytes = 1000, 100_000
	})
	ensure(t, c)
	msgs := samples(0, 50)
	msgs[7].Value = make([]byte, 2000)
	msgs[9].Topic = ""
	err := c.Producer().Produce(ctx, msgs)
	var produce *ProduceError
	if !errors.As(err, &produce) || !errors.Is(err, ErrRefused) {
		t.Fatalf("Produce: %v, want a *ProduceError that is ErrRefused", err)
	}
	var failed []int
	for i, err := range produce.Errs {
		if err != nil {
			failed = append(failed, i)
		}
	}
	if diff := cmp.Diff([]int{7, 9}, failed); diff != "" {
		t.Errorf("failed messages (-want +got):\n%s", diff)
	}
	if !strings.Contains(err.Error(), `2 of 50 messages`) || !strings.Contains(err.Error(), "limit 1000") {
		t.Errorf("error %q does not say how many failed and why", err)
	}
	fetchCount(t, join(t, c, "ingest"), 48)
}

func TestProduceIsolatesWhatTheBrokerRefuses(t *testing.T) {
	eachBroker(t, testProduceIsolatesWhatTheBrokerRefuses)
}

func testProduceIsolatesWhatTheBrokerRefuses(t *testing.T, b *testBroker) {
	ctx := testContext(t)
	c := newTestClient(t, b.addr, func(config *Config) {
		config.MaxMessageBytes, config.BatchBytes, config.SamplesPartitions = 1000, 1000, 1
	})
	ensure(t, c)
	// A second client believes in a higher limit than the topic has.
	careless := newTestClient(t, c.config.Brokers[0], nil)
	msgs := samples(0, 40)
	msgs[21].Value = noise(batchOverheadBytes + 5000)
	err := careless.Producer().Produce(ctx, msgs)
	var produce *ProduceError
	if !errors.As(err, &produce) {
		t.Fatalf("Produce: %v, want *ProduceError", err)
	}
	if produce.Failed() != 1 || !errors.Is(produce.Errs[21], kafka.MessageSizeTooLarge) || !errors.Is(produce.Errs[21],
		ErrRefused) {
		t.Errorf("%d messages failed, message 21 with %v, want only it with MessageSizeTooLarge", produce.Failed(),
			produce.Errs[21])
	}
	fetchCount(t, join(t, c, "ingest"), 39)
}

// noise is bytes that zstd can't shrink.
func noise(n int) []byte {
	out := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1, 2}).Read(out) // never fails
	return out
}

func TestProduceRetriesUntilContextEnds(t *testing.T) {
	eachBroker(t, testProduceRetriesUntilContextEnds)
}

func testProduceRetriesUntilContextEnds(t *testing.T, b *testBroker) {
	c := newTestClient(t, b.addr, nil)
	ctx, cancel := context.WithTimeout(testContext(t), 100*time.Millisecond)
	defer cancel()
	err := c.Producer().Produce(ctx, samples(0, 3)) // the topic does not exist
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrRefused) {
		t.Errorf("Produce to a missing topic: %v, want the context's end, not a refusal", err)
	}
}
