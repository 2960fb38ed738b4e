package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// readAll reads a partition's offsets [from, to), three messages at a time.
func readAll(tb testing.TB, c *Client, partition int, from, to int64) (values []string) {
	tb.Helper()
	r := c.Reader(TopicSamples, partition, from, to, ConsumerOptions{MaxWait: 20 * time.Millisecond})
	defer r.Close()
	for {
		msgs, err := r.Read(testContext(tb), 3)
		if errors.Is(err, io.EOF) {
			return values
		}
		if err != nil || len(msgs) == 0 || len(msgs) > 3 {
			tb.Fatalf("Read: got %d messages, %v", len(msgs), err)
		}
		for _, m := range msgs {
			if m.Offset != from+int64(len(values)) || m.Partition != partition || string(m.Key) != "k" || len(m.Headers) != 1 {
				tb.Fatalf("Read: got %d/%d key %q headers %v", m.Partition, m.Offset, m.Key, m.Headers)
			}
			values = append(values, string(m.Value))
		}
	}
}

// TestReaderReadsASpanAndCommitsNothing, beside a group on the same partition.
func TestReaderReadsASpanAndCommitsNothing(t *testing.T) {
	eachBroker(t, func(t *testing.T, b *testBroker) {
		c := NewClient(Config{Brokers: []string{b.addr}, SamplesPartitions: 1}, quiet())
		t.Cleanup(c.Close)
		if err := c.EnsureTopics(testContext(t)); err != nil {
			t.Fatal(err)
		}
		var msgs []Message
		var want []string
		for i := range 10 {
			want = append(want, fmt.Sprint(i))
			msgs = append(msgs, Message{Topic: TopicSamples, Key: []byte("k"), Value: []byte(want[i]), Headers: []Header{{Key: "h", Value: []byte("v")}}})
		}
		if err := c.Producer().Produce(testContext(t), msgs); err != nil {
			t.Fatal(err)
		}
		before, err := c.Offsets(testContext(t), TopicSamples, "g")
		if err != nil {
			t.Fatal(err)
		}
		for _, span := range [][2]int64{{0, 10}, {4, 9}, {9, 10}, {3, 3}, {10, 10}} {
			if diff := cmp.Diff(want[span[0]:span[1]], readAll(t, c, 0, span[0], span[1]), cmp.Transformer("len0", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
				t.Errorf("offsets %v (-want +got):\n%s", span, diff)
			}
		}
		after, err := c.Offsets(testContext(t), TopicSamples, "g")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("the group's offsets (-want +got):\n%s", diff)
		}
		var beyond *OffsetError
		if _, err := c.Reader(TopicSamples, 0, 12, 20, ConsumerOptions{}).Read(testContext(t), 1); !errors.As(err, &beyond) || beyond.Last != 10 {
			t.Errorf("a span beyond the end: got %v, want an OffsetError with end 10", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Reader(TopicSamples, 0, 0, 10, ConsumerOptions{}).Read(ended, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended: got %v", err)
		}
	})
}

// TestOffsetsAtATime: the first message appended at or after it, else the end.
func TestOffsetsAtATime(t *testing.T) {
	eachBroker(t, func(t *testing.T, b *testBroker) {
		c := NewClient(Config{Brokers: []string{b.addr}, SamplesPartitions: 2}, quiet())
		t.Cleanup(c.Close)
		if err := c.EnsureTopics(testContext(t)); err != nil {
			t.Fatal(err)
		}
		var times []time.Time
		partition := 0
		for i := range 3 {
			msg := []Message{{Topic: TopicSamples, Key: []byte("k"), Value: fmt.Append(nil, i)}}
			if err := c.Producer().Produce(testContext(t), msg); err != nil {
				t.Fatal(err)
			}
			partition = msg[0].Partition
			pauseBriefly(t) // a time of its own, to the ms
		}
		r := c.Reader(TopicSamples, partition, 0, 3, ConsumerOptions{})
		for len(times) < 3 {
			msgs, err := r.Read(testContext(t), 3)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range msgs {
				times = append(times, m.Time)
			}
		}
		for _, ask := range []struct {
			name string
			at   time.Time
			want int64
		}{
			{"before all", times[0].Add(-time.Hour), 0},
			{"the second's own", times[1], 1},
			{"after the second", times[1].Add(time.Millisecond), 2},
			{"after all", times[2].Add(time.Hour), 3},
		} {
			got, err := c.OffsetsAt(testContext(t), TopicSamples, ask.at)
			if err != nil {
				t.Fatal(err)
			}
			want := map[int]int64{partition: ask.want, 1 - partition: 0}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", ask.name, diff)
			}
		}
	})
}
