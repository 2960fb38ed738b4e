package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// produced is when the records of stampedBatch were produced, by a clock that is
// an hour ahead.
var produced = time.UnixMilli(1_772_622_000_000)

// stampedBatch is a record batch as a broker stores it: with append times, only
// attribute and max timestamp are its own. A zero time leaves the producer's.
func stampedBatch(t *testing.T, base int64, at time.Time, values ...string) []byte {
	t.Helper()
	var records []kafka.Record
	for i, v := range values {
		records = append(records,
			kafka.Record{Time: produced.Add(time.Duration(i) * time.Second), Value: kafka.NewBytes([]byte(v))})
	}
	var buf bytes.Buffer
	set := protocol.RecordSet{Version: 2, Attributes: protocol.Zstd, Records: kafka.NewRecordReader(records...)}
	if _, err := set.WriteTo(&buf); err != nil {
		t.Fatal(err)
	}
	batch := buf.Bytes()[4:] // behind the set's size
	binary.BigEndian.PutUint64(batch, uint64(base))
	if !at.IsZero() {
		batch[batchAttributesAt+1] |= batchAppendTime
		binary.BigEndian.PutUint64(batch[batchMaxTimeAt:], uint64(at.UnixMilli()))
		binary.BigEndian.PutUint32(batch[batchCRCAt:], crc32.Checksum(batch[batchBodyAt:], castagnoli))
	}
	return batch
}

// TestAppendTimesAreFoundInEveryVersion: the layout around the batches differs.
func TestAppendTimesAreFoundInEveryVersion(t *testing.T) {
	at := produced.Add(-time.Hour)
	stored := [][]byte{
		stampedBatch(t, 40, at, "a", "b", "c"),
		stampedBatch(t, 43, time.Time{}, "d"),
		stampedBatch(t, 50, at.Add(time.Second), "e"), // 44 to 49 are gone
	}
	batches := bytes.Join(stored, nil)
	type span struct {
		first, last int64
		bytes       int
		at          time.Time
	}
	want := []span{
		{40, 42, len(stored[0]), at},
		{43, 43, len(stored[1]), produced},
		{50, 50, len(stored[2]), at.Add(time.Second)},
	}
	for version := int16(2); version <= 11; version++ {
		var buf bytes.Buffer
		err := protocol.WriteResponse(&buf, version, 1, &fetch.Response{Topics: []fetch.ResponseTopic{{
			Topic: TopicSamples,
			Partitions: []fetch.ResponsePartition{{
				Partition: 3, HighWatermark: 51, RecordSet: protocol.RecordSet{Version: 2, Records: oneRecord("x")},
				AbortedTransactions: []fetch.ResponseTransaction{{ProducerID: 7, FirstOffset: 9}},
			}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		frame := buf.Bytes()[4:]
		answer, err := parseFetch(frame, version, 1, TopicSamples, 3)
		if err != nil || len(answer.set) < batchHeaderBytes || !bytes.HasSuffix(frame, answer.set) ||
			answer.highWatermark != 51 {
			t.Fatalf("version %d: %v, record set of %d bytes is not the end of the response", version, err, len(answer.set))
		}
		// Put the batches in the place of kafka-go's own.
		head := frame[:len(frame)-len(answer.set)]
		binary.BigEndian.PutUint32(head[len(head)-4:], uint32(len(batches)))
		frame = append(head[:len(head):len(head)], batches...)
		if answer, err = parseFetch(frame, version, 1, TopicSamples, 3); err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		var got []span
		for b, rest, ok := cutBatch(answer.set); ok; b, rest, ok = cutBatch(rest) {
			got = append(got, span{b.first, b.last, len(b.raw), b.time(0)})
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(span{})); diff != "" {
			t.Errorf("version %d (-want +got):\n%s", version, diff)
		}
		for n := range len(frame) {
			if _, err := parseFetch(frame[:n:n], version, 1, TopicSamples, 3); err == nil {
				t.Errorf("version %d: the first %d of %d bytes are taken for an answer", version, n, len(frame))
			}
		}
		counts := bytes.Clone(frame) // all that can count, counts up to 2^32-1
		for i := 4; i < len(head); i++ {
			counts[i] = 0xff
			if _, err := parseFetch(counts, version, 1, TopicSamples, 3); err == nil && i > 8 {
				t.Errorf("version %d: ff up to byte %d is taken for an answer", version, i)
			}
		}
	}
}

func oneRecord(value string) kafka.RecordReader {
	return kafka.NewRecordReader(kafka.Record{Time: produced, Value: kafka.NewBytes([]byte(value))})
}

func TestCutOffAnswersHaveNoBatches(t *testing.T) {
	batch := stampedBatch(t, 40, produced, "a")
	for n := range len(batch) {
		if b, rest, ok := cutBatch(batch[:n]); ok || len(rest) > 0 {
			t.Errorf("%d bytes: a batch %v", n, b)
		}
	}
	if _, err := readFrame(strings.NewReader("\xff\xff\xff\xff")); err == nil || !strings.Contains(err.Error(),
		"4294967295 bytes") {
		t.Errorf("error %v, want one that names the length", err)
	}
}

// TestTimeIsTheBrokersAppend: on a topic with LogAppendTime the producer's clock
// decides nothing (R11). The broker here answers as Apache Kafka does.
func TestTimeIsTheBrokersAppend(t *testing.T) {
	embedded := startBroker(t, t.TempDir())
	c := newTestClient(t, embedded.Addr(), func(config *Config) { config.SamplesPartitions = 1 })
	ensure(t, c)
	if err := c.Producer().Produce(testContext(t), samples(0, 4)); err != nil { // gives the partition its offsets
		t.Fatal(err)
	}
	at := produced.Add(-time.Hour)
	answerWith(embedded, append(stampedBatch(t, 0, at, "a", "b"), stampedBatch(t, 2, time.Time{}, "c", "d")...), 3)
	var got []string
	for _, m := range fetchCount(t, join(t, c, "ingest"), 4) {
		got = append(got, fmt.Sprintf("%d %s %s", m.Offset, m.Value, m.Time.Sub(produced)))
	}
	want := []string{"0 a -1h0m0s", "1 b -1h0m0s", "2 c 0s", "3 d 1s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("offset, value, time after the producer's (-want +got):\n%s", diff)
	}
}

// answerWith makes the broker answer fetches up to an offset with what it has
// not stored, and counts them.
func answerWith(embedded *Embedded, stored []byte, upTo int64) (fetches *atomic.Int64) {
	fetches = new(atomic.Int64)
	embedded.cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		embedded.cluster.KeepControl()
		asked := req.(*kmsg.FetchRequest)
		if asked.Topics[0].Partitions[0].FetchOffset > upTo {
			return nil, nil, false
		}
		fetches.Add(1)
		res := asked.ResponseKind().(*kmsg.FetchResponse)
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic = asked.Topics[0].Topic
		partition := kmsg.NewFetchResponseTopicPartition()
		partition.HighWatermark, partition.RecordBatches = upTo+1, stored
		topic.Partitions = append(topic.Partitions, partition)
		res.Topics = append(res.Topics, topic)
		return res, nil, true
	})
	return fetches
}

// TestMarkersAreFetchedOnce: a fetch at a transaction's marker is answered at
// once with the marker, however often it is repeated.
func TestMarkersAreFetchedOnce(t *testing.T) {
	embedded := startBroker(t, t.TempDir())
	c := newTestClient(t, embedded.Addr(), onePartition)
	ensure(t, c)
	if err := c.Producer().Produce(testContext(t), samples(0, 3)); err != nil { // gives the partition its offsets
		t.Fatal(err)
	}
	marker := stampedBatch(t, 0, produced, "marker")
	marker[batchAttributesAt+1] |= batchControl
	binary.BigEndian.PutUint32(marker[batchCRCAt:], crc32.Checksum(marker[batchBodyAt:], castagnoli))
	fetches := answerWith(embedded, marker, 0)
	got := fetchCount(t, join(t, c, "ingest"), 2)
	if diff := cmp.Diff(&Hole{Partition: 0, From: 0, To: 1}, got[0].Hole); diff != "" || got[0].Offset != 1 {
		t.Errorf("first message has offset %d, want 1; hole (-want +got):\n%s", got[0].Offset, diff)
	}
	if n := fetches.Load(); n != 1 {
		t.Errorf("%d fetches at the marker, want 1", n)
	}
}

// TestAnswersWithoutTheRecordAreErrors: they are neither skipped nor asked for
// without a pause.
func TestAnswersWithoutTheRecordAreErrors(t *testing.T) {
	whole := stampedBatch(t, 0, produced, "a", "b")
	for name, stored := range map[string][]byte{
		"header cut off":   whole[:30],
		"records cut off":  whole[:len(whole)-1],
		"an earlier batch": stampedBatch(t, -4, produced, "x", "y"),
	} {
		t.Run(name, func(t *testing.T) {
			embedded := startBroker(t, t.TempDir())
			c := newTestClient(t, embedded.Addr(), func(config *Config) {
				config.SamplesPartitions = 1
				config.RetryMin, config.RetryMax = 50*time.Millisecond, 50*time.Millisecond
			})
			ensure(t, c)
			if err := c.Producer().Produce(testContext(t), samples(0, 3)); err != nil {
				t.Fatal(err)
			}
			fetches := answerWith(embedded, stored, 1)
			msgs, err := join(t, c, "ingest").Fetch(testContext(t), 10, 300*time.Millisecond)
			if err != nil || len(msgs) != 0 {
				t.Errorf("Fetch = %q, %v, want nothing while the broker answers nonsense", values(msgs), err)
			}
			if n := fetches.Load(); n < 1 || n > 10 {
				t.Errorf("%d fetches in 300 ms with pauses of 50 ms, want 1 to 10", n)
			}
			if n := testutil.ToFloat64(c.metrics.errors.WithLabelValues("fetch")); n < 1 {
				t.Errorf("error counter is %v, want 1 or more", n)
			}
		})
	}
}

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
			msgs = append(msgs,
				Message{
					Topic: TopicSamples, Key: []byte("k"), Value: []byte(want[i]),
					Headers: []Header{{Key: "h", Value: []byte("v")}},
				})
		}
		if err := c.Producer().Produce(testContext(t), msgs); err != nil {
			t.Fatal(err)
		}
		before, err := c.Offsets(testContext(t), TopicSamples, "g")
		if err != nil {
			t.Fatal(err)
		}
		for _, span := range [][2]int64{{0, 10}, {4, 9}, {9, 10}, {3, 3}, {10, 10}} {
			if diff := cmp.Diff(want[span[0]:span[1]], readAll(t, c, 0, span[0], span[1]),
				cmp.Transformer("len0", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
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
		if _, err := c.Reader(TopicSamples, 0, 12, 20, ConsumerOptions{}).Read(testContext(t), 1); !errors.As(err,
			&beyond) || beyond.Last != 10 {
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
