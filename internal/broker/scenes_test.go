package broker

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/segmentio/kafka-go"

	"github.com/gputally/gputally/internal/broker/brokertest"
)

// flow produces numbered messages, 20 a call, until it is ended.
type flow struct {
	acknowledged atomic.Int64
	end          context.CancelFunc // after the call that is under way
	done         chan error
}

func startFlow(t *testing.T, c *Client) *flow {
	ending, end := context.WithCancel(testContext(t))
	f := &flow{end: end, done: make(chan error, 1)}
	ctx := testContext(t)
	go func() {
		producer := c.Producer()
		for i := 0; ending.Err() == nil; i += 20 {
			if err := producer.Produce(ctx, samples(i, i+20)); err != nil {
				f.done <- err
				return
			}
			f.acknowledged.Store(int64(i + 20))
		}
		f.done <- nil
	}()
	return f
}

// await returns when n more messages are acknowledged.
func (f *flow) await(t *testing.T, n int64) {
	t.Helper()
	ctx := testContext(t)
	until := f.acknowledged.Load() + n
	for f.acknowledged.Load() < until {
		if ctx.Err() != nil {
			t.Fatalf("%d messages acknowledged, want %d", f.acknowledged.Load(), until)
		}
		pauseBriefly(t)
	}
}

// stop ends the flow and says how many messages were produced.
func (f *flow) stop(t *testing.T) int {
	t.Helper()
	f.end()
	if err := <-f.done; err != nil {
		t.Fatalf("Produce: %v", err)
	}
	return int(f.acknowledged.Load())
}

// reader is a member that keeps what it fetches, then commits it.
type reader struct {
	client   *Client
	consumer *Consumer
	got      []Message
	done     chan error
	end      context.CancelFunc
}

func startReader(t *testing.T, c *Client, group string) *reader {
	ctx, end := context.WithCancel(testContext(t))
	r := &reader{client: c, consumer: join(t, c, group), done: make(chan error, 1), end: end}
	go func() { r.done <- r.run(ctx) }()
	return r
}

func (r *reader) run(ctx context.Context) error {
	for {
		msgs, err := r.consumer.Fetch(ctx, 100, time.Second)
		if err != nil {
			return err
		}
		r.got = append(r.got, msgs...)
		for { // as the ingester does: a broker that has just started may not know its groups yet
			err := r.consumer.Commit(ctx, msgs)
			if err == nil || errors.Is(err, ErrNotAssigned) {
				break
			}
			if ctx.Err() != nil {
				return err
			}
		}
	}
}

// awaitFetched returns when the reader was given n more messages.
func (r *reader) awaitFetched(t *testing.T, n float64) {
	t.Helper()
	ctx := testContext(t)
	counter := r.client.metrics.fetched.WithLabelValues(TopicSamples, r.consumer.group)
	for until := testutil.ToFloat64(counter) + n; testutil.ToFloat64(counter) < until; pauseBriefly(t) {
		if ctx.Err() != nil {
			t.Fatalf("reader fetched %v messages, want %v", testutil.ToFloat64(counter), until)
		}
	}
}

// stop ends the reader once the group has committed everything, or at once.
func (r *reader) stop(t *testing.T, drained bool) []Message {
	t.Helper()
	ctx := testContext(t)
	for ; drained; pauseBriefly(t) {
		offsets, err := r.client.Offsets(ctx, TopicSamples, r.consumer.group)
		if ctx.Err() != nil {
			t.Fatalf("group has not caught up: %+v, %v", offsets, err)
		}
		var lag int64
		for _, o := range offsets {
			lag += o.Lag()
		}
		if err == nil && lag == 0 {
			break
		}
	}
	r.end()
	if err := <-r.done; !errors.Is(err, context.Canceled) {
		t.Fatalf("reader: %v", err)
	}
	if err := r.consumer.Close(); err != nil {
		t.Errorf("close consumer: %v", err)
	}
	return r.got
}

// nothingLost checks that every one of n messages was read, some more than once,
// and that no hole was told of.
func nothingLost(t *testing.T, n int, read ...[]Message) {
	t.Helper()
	times := map[string]int{}
	total := 0
	for _, msgs := range read {
		for _, m := range msgs {
			times[string(m.Value)]++
			total++
			if m.Hole != nil {
				t.Errorf("%v was told of before offset %d", m.Hole, m.Offset)
			}
		}
	}
	var lost []string
	for _, m := range samples(0, n) {
		if times[string(m.Value)] == 0 {
			lost = append(lost, string(m.Value))
		}
		delete(times, string(m.Value))
	}
	if len(lost) > 0 || len(times) > 0 {
		t.Errorf("of %d messages these were not read: %q; these were read and never sent: %q", n, lost,
			slices.Sorted(maps.Keys(times)))
	}
	t.Logf("%d messages, %d read again", n, total-n)
}

// TestBrokerKilledInMidStream: production and consumption go on when it is back.
func TestBrokerKilledInMidStream(t *testing.T) { eachBroker(t, testBrokerKilledInMidStream) }

func testBrokerKilledInMidStream(t *testing.T, b *testBroker) {
	c := newTestClient(t, b.addr, nil)
	ensure(t, c)
	f := startFlow(t, c)
	r := startReader(t, newTestClient(t, b.addr, nil), "ingest")
	f.await(t, 500)
	r.awaitFetched(t, 500)
	b.stop()
	b.start(t)
	f.await(t, 500)
	n := f.stop(t)
	nothingLost(t, n, r.stop(t, true))
	if retries := testutil.ToFloat64(c.metrics.retries.WithLabelValues(TopicSamples)); retries < 1 {
		t.Errorf("retry counter is %v, want 1 or more", retries)
	}
}

// memberVar makes the test binary a member of the group on the broker it names.
const memberVar = "GPUTALLY_TEST_BROKER_MEMBER"

// consumeForever prints each value before it commits it.
func consumeForever(addr string) error {
	config := DefaultConfig()
	config.Brokers = []string{addr}
	config.RetryMin, config.RetryMax = time.Millisecond, 20*time.Millisecond
	consumer, err := NewClient(config, quiet()).Consumer("ingest", TopicSamples, ConsumerOptions{
		SessionTimeout: 2 * time.Second, RebalanceTimeout: 2 * time.Second, MaxWait: 20 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	for ctx := context.Background(); ; {
		msgs, err := consumer.Fetch(ctx, 100, time.Minute)
		if err != nil {
			return err
		}
		for _, m := range msgs {
			fmt.Println(string(m.Value))
		}
		if err := consumer.Commit(ctx, msgs); err != nil && !errors.Is(err, ErrNotAssigned) {
			return err
		}
	}
}

// TestMembersComeAndGo: one leaves, one is killed; the one that stays reads on
// in all partitions, and between them they have read everything.
func TestMembersComeAndGo(t *testing.T) { eachBroker(t, testMembersComeAndGo) }

func testMembersComeAndGo(t *testing.T, b *testBroker) {
	c := newTestClient(t, b.addr, nil)
	ensure(t, c)
	f := startFlow(t, c)
	stays := startReader(t, newTestClient(t, b.addr, nil), "ingest")
	stays.awaitFetched(t, 100)
	leaves := startReader(t, newTestClient(t, b.addr, nil), "ingest")
	leaves.awaitFetched(t, 100)
	left := leaves.stop(t, false)
	died := killMemberAfter(t, b.addr, 100)
	n := f.stop(t)
	nothingLost(t, n, stays.stop(t, true), left, died)
	if len(left) == 0 || len(died) == 0 {
		t.Errorf("%d messages read by the member that left, %d by the one that died, want some", len(left), len(died))
	}
}

// killMemberAfter runs a member in a process of its own, which is killed when
// it has read n messages.
func killMemberAfter(t *testing.T, addr string, n int) (read []Message) {
	t.Helper()
	ctx, kill := context.WithCancel(testContext(t))
	defer kill()
	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), memberVar+"="+addr)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		read = append(read, Message{Value: []byte(lines.Text())})
		if len(read) == n {
			kill()
		}
	}
	_ = child.Wait()
	return read
}

// TestLargeMessagesArrive: one of the greatest size, and batches that a fetch
// cuts off at its limit.
func TestLargeMessagesArrive(t *testing.T) { eachBroker(t, testLargeMessagesArrive) }

func testLargeMessagesArrive(t *testing.T, b *testBroker) {
	ctx := testContext(t)
	c := newTestClient(t, b.addr, onePartition)
	ensure(t, c)
	sent := samples(0, 30)
	for i := range sent {
		sent[i].Value = noise(300_000 + i)
	}
	greatest := &sent[10]
	greatest.Value = noise(c.config.MaxMessageBytes - greatest.sizeBytes() + len(greatest.Value))
	for i := range sent { // one a batch
		if err := c.Producer().Produce(ctx, sent[i:i+1]); err != nil {
			t.Fatalf("produce message %d of %d bytes: %v", i, sent[i].sizeBytes(), err)
		}
	}
	consumer, err := c.Consumer("ingest", TopicSamples, ConsumerOptions{MaxBytes: 1_000_000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = consumer.Close() })
	cut, err := (&fetcher{client: c, topic: TopicSamples, opt: consumer.opt}).ask(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !b.embedded && len(cut.set) != 1_000_000 {
		t.Errorf("fetch of at most 1000000 bytes gave %d, want a batch cut off there", len(cut.set))
	}
	got := fetchCount(t, consumer, len(sent))
	for i := range sent {
		if got[i].Offset != int64(i) || got[i].Hole != nil || !bytes.Equal(sent[i].Value, got[i].Value) {
			t.Errorf("message at offset %d with %d bytes and hole %v differs from the one of %d bytes produced there",
				got[i].Offset, got[i].sizeBytes(), got[i].Hole, sent[i].sizeBytes())
		}
	}
	greatest.Value = append(greatest.Value, 0)
	if err := c.Producer().Produce(ctx, sent[10:11]); !errors.Is(err, ErrRefused) {
		t.Errorf("Produce of one byte more than the limit: %v, want ErrRefused", err)
	}
}

// TestTooFewReplicasAreNamedAndRetried: acks=all is no promise where
// min.insync.replicas allows one copy, so operators set it to two.
func TestTooFewReplicasAreNamedAndRetried(t *testing.T) {
	ctx := testContext(t)
	k := brokertest.Kafka(t)
	second := k.Second(t)
	c := newTestClient(t, k.Addr(), func(config *Config) { config.ReplicationFactor = 2; config.SamplesPartitions = 1 })
	ensure(t, c)
	setTopic(t, k.Addr(), "min.insync.replicas", "2")
	producer := c.Producer()
	if err := producer.Produce(ctx, samples(0, 10)); err != nil {
		t.Fatalf("Produce with two replicas: %v", err)
	}
	second.Stop(t)
	// Where the second broker led, it takes until kafka-go asks for the new leader.
	heard := &phrase{text: "Not Enough Replicas", heard: make(chan struct{})}
	c.log = slog.New(slog.NewTextHandler(heard, nil))
	cut, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- producer.Produce(cut, samples(10, 20)) }()
	select {
	case <-heard.heard:
	case err := <-done:
		t.Fatalf("Produce with one replica of two ended: %v", err)
	}
	cancel()
	err := <-done
	if !errors.Is(err, kafka.NotEnoughReplicas) || !errors.Is(err, context.Canceled) || errors.Is(err, ErrRefused) {
		t.Errorf("Produce with one replica of two: %v, want NotEnoughReplicas until the context's end", err)
	}
	retries := testutil.ToFloat64(c.metrics.retries.WithLabelValues(TopicSamples))
	if retries < 1 {
		t.Errorf("retry counter is %v, want 1 or more", retries)
	}
	go func() { done <- producer.Produce(ctx, samples(10, 20)) }()
	setTopic(t, k.Addr(), "min.insync.replicas", "1")
	if err := <-done; err != nil {
		t.Errorf("Produce when one replica is enough: %v", err)
	}
	// What timed out may have been written, so there may be copies.
	r := startReader(t, c, "ingest")
	nothingLost(t, 20, r.stop(t, true))
}

// phrase is a log that says when a text has been written to it.
type phrase struct {
	text  string
	heard chan struct{}
	once  sync.Once
}

func (p *phrase) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(p.text)) {
		p.once.Do(func() { close(p.heard) })
	}
	return len(line), nil
}
