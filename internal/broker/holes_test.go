package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/segmentio/kafka-go"

	"github.com/gputally/gputally/internal/broker/brokertest"
	"github.com/gputally/gputally/internal/clock"
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
	expectHole(t, fetchCount(t, join(t, c, "ingest"), int(40-first)), &Hole{Partition: 0, From: 3, To: first},
		msgs[first:])
}

// TestDecisionsOutlastRetention: twenty-five years old, and over a restart, while
// what lies beside them is deleted.
func TestDecisionsOutlastRetention(t *testing.T) {
	ctx, dir := testContext(t), t.TempDir()
	longAgo := clock.NewFake(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC))
	e, err := StartEmbedded(EmbeddedOptions{Dir: dir, Log: quiet(), Clock: longAgo, RetentionCheck: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	c := newTestClient(t, e.Addr(), onePartition)
	if err := c.EnsureTopics(ctx, TopicSamples, TopicDecisions); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{TopicDecisions, TopicSamples} {
		msgs := samples(0, 10)
		for i := range msgs {
			msgs[i].Topic = topic
		}
		if err := c.Producer().Produce(ctx, msgs); err != nil {
			t.Fatal(err)
		}
	}
	longAgo.Advance(8 * 24 * time.Hour)
	awaitFirst(t, c, 9) // the samples are gone, but for the last
	for _, when := range []string{"before", "after"} {
		if diff := cmp.Diff(values(samples(0, 10)), wholeTopic(t, c, TopicDecisions)); diff != "" {
			t.Errorf("decisions %s a restart (-want +got):\n%s", when, diff)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		e = startBroker(t, dir)
		c = newTestClient(t, e.Addr(), onePartition)
		if err := c.EnsureTopics(ctx, TopicDecisions); err != nil {
			t.Errorf("%s a restart: %v", when, err)
		}
	}
}

func wholeTopic(t *testing.T, c *Client, topic string) (out []string) {
	t.Helper()
	bounds, err := c.bounds(testContext(t), topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := c.Reader(topic, 0, 0, bounds[0].Last, ConsumerOptions{MaxWait: 20 * time.Millisecond})
	defer r.Close()
	for {
		msgs, err := r.Read(testContext(t), 100)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range msgs {
			if m.Hole != nil {
				t.Errorf("topic %s has a hole: %v", topic, m.Hole)
			}
		}
		out = append(out, values(msgs)...)
	}
}

func TestEnsureTopicsNamesWhatWouldLoseDecisions(t *testing.T) {
	eachForeignBroker(t, func(t *testing.T, b *testBroker) {
		for _, test := range []struct {
			name       string
			partitions int
			settings   map[string]string
			want       []string
		}{
			{
				name: "as it must be", partitions: 1,
				settings: map[string]string{"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"},
			},
			{
				name: "for a year", partitions: 1,
				settings: map[string]string{"retention.ms": "31536000000", "retention.bytes": "-1"},
				want:     []string{"retention.ms is 31536000000, want -1, set on the topic, since decisions are kept for ever"},
			},
			{
				name: "by default", partitions: 1,
				want: []string{"retention.ms is 604800000 (inherited), want -1", "retention.bytes is -1 (inherited), want -1"},
			},
			{
				name: "so many bytes", partitions: 1,
				settings: map[string]string{"retention.ms": "-1", "retention.bytes": "1000000"},
				want:     []string{"retention.bytes is 1000000, want -1"},
			},
			{
				name: "compacted", partitions: 1,
				settings: map[string]string{"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "compact"},
				want:     []string{"cleanup.policy is compact, want delete"},
			},
			{
				name: "two orders", partitions: 2, settings: map[string]string{"retention.ms": "-1", "retention.bytes": "-1"},
				want: []string{"partitions is 2, want 1"},
			},
		} {
			c := newTestClient(t, b.addr, nil)
			makeDecisions(t, c, test.partitions, test.settings)
			err := c.EnsureTopics(testContext(t), TopicDecisions)
			if (err != nil) != (test.want != nil) {
				t.Errorf("%s: EnsureTopics: %v", test.name, err)
			}
			for _, want := range test.want {
				if want = "topic gputally.decisions.v1: " + want; err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: error %v, want %q in it", test.name, err, want)
				}
			}
			var setting *SettingError
			if err != nil && !errors.As(err, &setting) {
				t.Errorf("%s: error %T is no *SettingError", test.name, err)
			}
			if _, err := c.kafka.DeleteTopics(testContext(t),
				&kafka.DeleteTopicsRequest{Topics: []string{TopicDecisions}}); err != nil {
				t.Fatal(err)
			}
			awaitTopic(t, c, TopicDecisions, false)
		}
	})
}

// makeDecisions creates the topic as an operator would.
func makeDecisions(t *testing.T, c *Client, partitions int, settings map[string]string) {
	t.Helper()
	topic := kafka.TopicConfig{
		Topic: TopicDecisions, NumPartitions: partitions, ReplicationFactor: 1,
		ConfigEntries: []kafka.ConfigEntry{
			{ConfigName: "message.timestamp.type", ConfigValue: appendTime},
			{ConfigName: "max.message.bytes", ConfigValue: "20000000"},
		},
	}
	for name, value := range settings {
		topic.ConfigEntries = append(topic.ConfigEntries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	res, err := c.kafka.CreateTopics(testContext(t), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
	if err != nil || res.Errors[TopicDecisions] != nil {
		t.Fatal(err, res)
	}
	awaitTopic(t, c, TopicDecisions, true)
}

// awaitTopic waits until a client that asks anew knows the topic, or doesn't.
func awaitTopic(t *testing.T, c *Client, topic string, there bool) {
	t.Helper()
	for ctx := testContext(t); ; pauseBriefly(t) {
		fresh := newTestClient(t, c.config.Brokers[0], nil)
		_, err := fresh.partitionCount(ctx, topic)
		fresh.Close()
		switch {
		case err == nil && there, errors.Is(err, kafka.UnknownTopicOrPartition) && !there:
			return
		case ctx.Err() != nil:
			t.Fatalf("topic %s: %v", topic, err)
		}
	}
}

// TestEnsureTopicsTouchesWhatIsNamed: a collector needs no right on decisions.
func TestEnsureTopicsTouchesWhatIsNamed(t *testing.T) {
	for _, test := range []struct {
		names []string
		there []string
	}{
		{there: []string{TopicSamples, TopicDeadLetter}},
		{names: []string{TopicDecisions}, there: []string{TopicDecisions}},
		{names: []string{TopicSamples, TopicDecisions}, there: []string{TopicSamples, TopicDecisions}},
	} {
		c := newTestClient(t, startBroker(t, t.TempDir()).Addr(), nil)
		if err := c.EnsureTopics(testContext(t), test.names...); err != nil {
			t.Fatal(err)
		}
		meta, err := c.kafka.Metadata(testContext(t), &kafka.MetadataRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, topic := range meta.Topics {
			got = append(got, topic.Name)
		}
		if diff := cmp.Diff(test.there, got, anyOrder); diff != "" {
			t.Errorf("topics for %q (-want +got):\n%s", test.names, diff)
		}
	}
	c := newTestClient(t, "127.0.0.1:1", nil)
	if err := c.EnsureTopics(context.Background(), "samples"); err == nil || !strings.Contains(err.Error(),
		`unknown topic "samples"`) {
		t.Errorf("EnsureTopics of a foreign topic: %v", err)
	}
}
