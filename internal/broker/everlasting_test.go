package broker

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go"

	"github.com/gputally/gputally/internal/clock"
)

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
			{name: "as it must be", partitions: 1, settings: map[string]string{"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}},
			{name: "for a year", partitions: 1, settings: map[string]string{"retention.ms": "31536000000", "retention.bytes": "-1"}, want: []string{"retention.ms is 31536000000, want -1 set on the topic: decisions are kept for ever"}},
			{name: "by default", partitions: 1, want: []string{"retention.ms is 604800000 (inherited), want -1", "retention.bytes is -1 (inherited), want -1"}},
			{name: "so many bytes", partitions: 1, settings: map[string]string{"retention.ms": "-1", "retention.bytes": "1000000"}, want: []string{"retention.bytes is 1000000, want -1"}},
			{name: "compacted", partitions: 1, settings: map[string]string{"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "compact"}, want: []string{"cleanup.policy is compact, want delete"}},
			{name: "two orders", partitions: 2, settings: map[string]string{"retention.ms": "-1", "retention.bytes": "-1"}, want: []string{"partitions is 2, want 1"}},
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
			if _, err := c.kafka.DeleteTopics(testContext(t), &kafka.DeleteTopicsRequest{Topics: []string{TopicDecisions}}); err != nil {
				t.Fatal(err)
			}
			awaitTopic(t, c, TopicDecisions, false)
		}
	})
}

// makeDecisions creates the topic as an operator would.
func makeDecisions(t *testing.T, c *Client, partitions int, settings map[string]string) {
	t.Helper()
	topic := kafka.TopicConfig{Topic: TopicDecisions, NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: []kafka.ConfigEntry{
		{ConfigName: "message.timestamp.type", ConfigValue: appendTime}, {ConfigName: "max.message.bytes", ConfigValue: "20000000"},
	}}
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
	if err := c.EnsureTopics(context.Background(), "samples"); err == nil || !strings.Contains(err.Error(), `"samples" is no topic of the house`) {
		t.Errorf("EnsureTopics of a foreign topic: %v", err)
	}
}
