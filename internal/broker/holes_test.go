package broker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/segmentio/kafka-go"

	"github.com/gputally/gputally/internal/broker/brokertest"
)

func TestRetentionLeavesAHole(t *testing.T) { eachBroker(t, testRetentionLeavesAHole) }

func testRetentionLeavesAHole(t *testing.T, b *testBroker) {
	ctx := testContext(t)
	c := newTestClient(t, b.addr, func(config *Config) {
		config.SamplesPartitions = 1
		config.SamplesRetention = 300 * time.Millisecond
	})
	ensure(t, c)
	producer := c.Producer()
	if err := producer.Produce(ctx, samples(0, 20)); err != nil {
		t.Fatal(err)
	}
	consumer := join(t, c, "ingest")
	if err := consumer.Commit(ctx, fetchCount(t, consumer, 5)); err != nil {
		t.Fatal(err)
	}
	if err := consumer.Close(); err != nil {
		t.Fatal(err)
	}
	awaitFirst(t, c, 19) // the embedded broker keeps the last one
	if err := producer.Produce(ctx, samples(20, 21)); err != nil {
		t.Fatal(err)
	}
	awaitFirst(t, c, 20)
	got := fetchCount(t, join(t, c, "ingest"), 1)
	want := Message{Offset: 20, Value: []byte("value-20"), Hole: &Hole{Partition: 0, From: 5, To: 20}}
	only := cmpopts.IgnoreFields(Message{}, "Topic", "Key", "Headers", "Time", "FetchedAt")
	if diff := cmp.Diff(want, got[0], only); diff != "" {
		t.Errorf("message after the hole (-want +got):\n%s", diff)
	}
	if n := testutil.ToFloat64(c.metrics.holes.WithLabelValues(TopicSamples, "ingest")); n != 15 {
		t.Errorf("hole counter is %v, want 15", n)
	}
}

// awaitFirst waits until retention has moved partition 0's first offset to want.
func awaitFirst(tb testing.TB, c *Client, want int64) {
	tb.Helper()
	ctx := testContext(tb)
	for {
		offsets, err := c.Offsets(ctx, TopicSamples, "ingest")
		if err != nil {
			tb.Fatal(err)
		}
		if offsets[0].First >= want {
			return
		}
		pauseBriefly(tb)
	}
}

func TestOffsetBeyondTheEndIsAnError(t *testing.T) {
	eachForeignBroker(t, testOffsetBeyondTheEndIsAnError)
}

func testOffsetBeyondTheEndIsAnError(t *testing.T, b *testBroker) {
	ctx := testContext(t)
	c := newTestClient(t, b.addr, func(config *Config) { config.SamplesPartitions = 1 })
	ensure(t, c)
	if err := c.Producer().Produce(ctx, samples(0, 20)); err != nil {
		t.Fatal(err)
	}
	consumer := join(t, c, "ingest")
	if err := consumer.Commit(ctx, fetchCount(t, consumer, 20)); err != nil {
		t.Fatal(err)
	}
	if err := consumer.Close(); err != nil {
		t.Fatal(err)
	}
	commitAhead(t, c, 900)
	_, err := join(t, c, "ingest").Fetch(ctx, 1, time.Minute)
	var lost *OffsetError
	if !errors.As(err, &lost) {
		t.Fatalf("Fetch: %v, want *OffsetError", err)
	}
	want := &OffsetError{Topic: TopicSamples, Group: "ingest", Partition: 0, Offset: 900, Last: 20}
	if diff := cmp.Diff(want, lost); diff != "" {
		t.Errorf("OffsetError (-want +got):\n%s", diff)
	}
}

// commitAhead commits an offset the partition doesn't have, as a topic made
// anew under a living group would.
func commitAhead(tb testing.TB, c *Client, offset int64) {
	tb.Helper()
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: "ingest", Brokers: c.config.Brokers, Topics: []string{TopicSamples},
		SessionTimeout: time.Second, HeartbeatInterval: 100 * time.Millisecond,
	})
	if err != nil {
		tb.Fatal(err)
	}
	gen, err := group.Next(testContext(tb))
	if err == nil {
		err = gen.CommitOffsets(map[string]map[int]int64{TopicSamples: {0: offset}})
	}
	if err != nil {
		tb.Fatal(err)
	}
	_ = group.Close()
}

// TestDeletedRecordsAreTheHole, to the offset, in the midst of a batch; a
// member that had read what went is told of none.
func TestDeletedRecordsAreTheHole(t *testing.T) { eachForeignBroker(t, testDeletedRecordsAreTheHole) }

func testDeletedRecordsAreTheHole(t *testing.T, b *testBroker) {
	ctx := testContext(t)
	c := newTestClient(t, b.addr, onePartition)
	ensure(t, c)
	produce := func(from, to int) {
		if err := c.Producer().Produce(ctx, samples(from, to)); err != nil {
			t.Fatal(err)
		}
	}
	produce(0, 20)
	consumer := join(t, c, "ingest")
	if err := consumer.Commit(ctx, fetchCount(t, consumer, 20)[:5]); err != nil {
		t.Fatal(err)
	}
	if err := consumer.Close(); err != nil {
		t.Fatal(err)
	}
	deleteBefore(t, b.addr, 13)
	consumer = join(t, c, "ingest")
	got := fetchCount(t, consumer, 7)
	expectHole(t, got, &Hole{Partition: 0, From: 5, To: 13}, samples(13, 20))
	if err := consumer.Close(); err != nil {
		t.Fatal(err)
	}

	consumer = join(t, c, "late") // nothing committed: starts at the oldest, without a hole
	expectHole(t, fetchCount(t, consumer, 7), nil, samples(13, 20))
	produce(20, 30)
	fetchCount(t, consumer, 10)
	deleteBefore(t, b.addr, 30) // all of it was read: nothing is missing
	produce(30, 31)
	expectHole(t, fetchCount(t, consumer, 1), nil, samples(30, 31))
	if n := testutil.ToFloat64(c.metrics.holes.WithLabelValues(TopicSamples, "ingest")); n != 8 {
		t.Errorf("hole counter is %v, want 8", n)
	}
}

// expectHole compares values, and that only the first message has a hole.
func expectHole(t *testing.T, got []Message, hole *Hole, want []Message) {
	t.Helper()
	if diff := cmp.Diff(values(want), values(got)); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	for i, m := range got {
		want := hole
		if i > 0 {
			want = nil
		}
		if diff := cmp.Diff(want, m.Hole); diff != "" {
			t.Errorf("hole before offset %d (-want +got):\n%s", m.Offset, diff)
		}
	}
}

// TestRetentionBySizeLeavesAHole: Apache Kafka deletes whole segments, and says
// nowhere which but by the first offset.
func TestRetentionBySizeLeavesAHole(t *testing.T) {
	ctx := testContext(t)
	k := brokertest.Kafka(t)
	c := newTestClient(t, k.Addr(), onePartition)
	ensure(t, c)
	setTopic(t, k.Addr(), "segment.bytes", "1048576")
	msgs := samples(0, 40)
	for i := range msgs {
		msgs[i].Value = append(fmt.Appendf(nil, "%03d", i), noise(100_000)...)
	}
	consumer := join(t, c, "ingest")
	if err := c.Producer().Produce(ctx, msgs[:5]); err != nil {
		t.Fatal(err)
	}
	if err := consumer.Commit(ctx, fetchCount(t, consumer, 5)[:3]); err != nil {
		t.Fatal(err)
	}
	if err := consumer.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range msgs[5:] { // one a batch: zstd would see that they resemble each other
		if err := c.Producer().Produce(ctx, msgs[5+i:6+i]); err != nil {
			t.Fatal(err)
		}
	}
	setTopic(t, k.Addr(), "retention.bytes", "1500000")
	awaitFirst(t, c, 20)
	setTopic(t, k.Addr(), "retention.bytes", "-1")
	offsets, err := c.Offsets(ctx, TopicSamples, "ingest")
	if err != nil {
		t.Fatal(err)
	}
	first := offsets[0].First
	expectHole(t, fetchCount(t, join(t, c, "ingest"), int(40-first)), &Hole{Partition: 0, From: 3, To: first}, msgs[first:])
}
