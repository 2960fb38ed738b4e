package broker

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gputally/gputally/internal/clock"
)

func testContext(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	tb.Cleanup(cancel)
	return ctx
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func startBroker(tb testing.TB, dir string) *Embedded {
	tb.Helper()
	return startWith(tb, EmbeddedOptions{Dir: dir, RetentionCheck: 20 * time.Millisecond})
}

func startWith(tb testing.TB, opt EmbeddedOptions) *Embedded {
	tb.Helper()
	opt.Log, opt.MinSessionTimeout = quiet(), 100*time.Millisecond
	e, err := StartEmbedded(opt)
	if err != nil {
		tb.Fatalf("StartEmbedded: %v", err)
	}
	tb.Cleanup(func() { _ = e.Close() })
	return e
}

// newSocket is an address that outlives a broker.
func newSocket(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/tmp", "gputally-") // t.TempDir may be too long
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return unixScheme + filepath.Join(dir, "kafka.sock")
}

// foreignDoor lets in clients that aren't ours: on TCP, with every key that kfake
// knows.
func foreignDoor(address string) (*door, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", cmp.Or(address, "127.0.0.1:0"))
	if err != nil {
		return nil, err
	}
	d := newDoor(listener, EmbeddedOptions{Log: quiet()})
	d.address, d.keys = listener.Addr(), map[int16]rule{}
	for key := range int16(100) {
		if req := kmsg.RequestForKey(key); req != nil {
			d.keys[key] = rule{newest: req.MaxVersion()}
		}
	}
	return d.open(), nil
}

func newTestClient(tb testing.TB, addr string, change func(*Config)) *Client {
	tb.Helper()
	config := DefaultConfig()
	config.Brokers = []string{addr}
	config.RetryMin, config.RetryMax = time.Millisecond, 20*time.Millisecond
	config.Registerer = prometheus.NewRegistry()
	if change != nil {
		change(&config)
	}
	if err := config.Validate(); err != nil {
		tb.Fatal(err)
	}
	c := NewClient(config, quiet())
	tb.Cleanup(c.Close)
	return c
}

// ensure makes the topics and waits until their partitions have leaders: Apache
// Kafka answers before.
func ensure(tb testing.TB, c *Client) {
	tb.Helper()
	ctx := testContext(tb)
	if err := c.EnsureTopics(ctx); err != nil {
		tb.Fatalf("EnsureTopics: %v", err)
	}
	for _, topic := range []string{TopicSamples, TopicDeadLetter} {
		awaitEnd(tb, c, topic, 0)
	}
}

// awaitEnd waits until partition 0 of a topic ends at least at an offset.
func awaitEnd(tb testing.TB, c *Client, topic string, end int64) {
	tb.Helper()
	ctx := testContext(tb)
	for {
		bounds, err := c.Bounds(ctx, topic)
		if err == nil && bounds[0].Last >= end {
			return
		}
		if clock.Sleep(ctx, clock.Real(), 10*time.Millisecond) != nil {
			tb.Fatalf("topic %s does not end at %d: %v, %v", topic, end, bounds, err)
		}
	}
}

func join(tb testing.TB, c *Client, group string) *Consumer {
	tb.Helper()
	consumer, err := c.Consumer(group, TopicSamples, ConsumerOptions{
		SessionTimeout: 2 * time.Second, RebalanceTimeout: 2 * time.Second, MaxWait: 20 * time.Millisecond,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = consumer.Close() })
	return consumer
}

func samples(from, to int) []Message {
	var msgs []Message
	for i := from; i < to; i++ {
		msgs = append(msgs, Message{
			Topic: TopicSamples, Key: fmt.Appendf(nil, "node-%d", i%16), Value: fmt.Appendf(nil, "value-%d", i),
			Headers: []Header{{Key: "seq", Value: fmt.Append(nil, i)}},
		})
	}
	return msgs
}

// fetchCount fetches until n messages are there.
func fetchCount(tb testing.TB, c *Consumer, n int) []Message {
	tb.Helper()
	ctx := testContext(tb)
	var all []Message
	for len(all) < n {
		msgs, err := c.Fetch(ctx, n-len(all), time.Second)
		if err != nil {
			tb.Fatalf("Fetch after %d of %d messages: %v", len(all), n, err)
		}
		all = append(all, msgs...)
	}
	return all
}

func values(msgs []Message) []string {
	out := make([]string, 0, len(msgs))
	for _, m := range msgs {
		out = append(out, string(m.Value))
	}
	return out
}

var anyOrder = cmpopts.SortSlices(strings.Compare)

func pauseBriefly(tb testing.TB) {
	timer := time.NewTimer(10 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-tb.Context().Done():
	}
}

// foreignClient is a client that is not kafka-go, for what kafka-go can't do and
// for a second opinion.
func foreignClient(tb testing.TB, addr string, opts ...kgo.Opt) *kgo.Client {
	tb.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(TopicSamples))...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	return client
}

// setTopic changes a setting of the samples topic.
func setTopic(tb testing.TB, addr, name, value string) {
	tb.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, TopicSamples
	setting := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	setting.Name, setting.Value = name, &value
	resource.Configs = append(resource.Configs, setting)
	req.Resources = append(req.Resources, resource)
	res, err := req.RequestWith(testContext(tb), foreignClient(tb, addr))
	if err == nil {
		err = kerr.ErrorForCode(res.Resources[0].ErrorCode)
	}
	if err != nil {
		tb.Fatalf("set %s of the samples topic to %s: %v", name, value, err)
	}
}

// deleteBefore moves the first offset of partition 0 of the samples topic.
func deleteBefore(tb testing.TB, addr string, offset int64) {
	tb.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic = TopicSamples
	partition := kmsg.NewDeleteRecordsRequestTopicPartition()
	partition.Offset = offset
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	for _, shard := range foreignClient(tb, addr).RequestSharded(testContext(tb), req) {
		if shard.Err != nil {
			tb.Fatalf("delete records before offset %d: %v", offset, shard.Err)
		}
		if err := kerr.ErrorForCode(shard.Resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode); err != nil {
			tb.Fatalf("delete records before offset %d: %v", offset, err)
		}
	}
}

func onePartition(config *Config) { config.SamplesPartitions = 1 }

func byPlace(msgs []Message) []Message {
	slices.SortFunc(msgs, func(a, b Message) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return msgs
}

// TestForeignClientReadsOurs: franz-go finds what we produced, and that it is
// stored with zstd.
func TestForeignClientReadsOurs(t *testing.T) { eachForeignBroker(t, testForeignClientReadsOurs) }

func testForeignClientReadsOurs(t *testing.T, b *testBroker) {
	ctx := testContext(t)
	c := newTestClient(t, b.addr, nil)
	ensure(t, c)
	sent := samples(0, 200)
	if err := c.Producer().Produce(ctx, sent); err != nil {
		t.Fatal(err)
	}
	client := foreignClient(t, b.addr, kgo.ConsumeTopics(TopicSamples))
	var got []Message
	for len(got) < len(sent) {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			const zstd = 4
			if r.Attrs.CompressionType() != zstd {
				t.Errorf("partition %d offset %d has compression %d, want %d", r.Partition, r.Offset,
					r.Attrs.CompressionType(), zstd)
			}
			got = append(got, Message{
				Topic: r.Topic, Key: r.Key, Value: r.Value, Partition: int(r.Partition), Offset: r.Offset,
				Headers: []Header{{Key: r.Headers[0].Key, Value: r.Headers[0].Value}}, Time: r.Timestamp,
			})
		})
	}
	// The embedded broker dates messages, but doesn't tell their producer.
	same := func(x, y time.Time) bool { return x.Equal(y) || b.embedded }
	if diff := gocmp.Diff(byPlace(sent), byPlace(got), gocmp.Comparer(same)); diff != "" {
		t.Errorf("messages (-produced +read):\n%s", diff)
	}
}

// TestForeignBatchesAreRead: other producers compress as they like, and have
// clocks of their own, which must not count (R11).
func TestForeignBatchesAreRead(t *testing.T) { eachForeignBroker(t, testForeignBatchesAreRead) }

func testForeignBatchesAreRead(t *testing.T, b *testBroker) {
	ctx := testContext(t)
	c := newTestClient(t, b.addr, onePartition)
	ensure(t, c)
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	before := c.clock.Now().Truncate(time.Millisecond)
	var want []string
	for name, codec := range codecs {
		producer := foreignClient(t, b.addr, kgo.ProducerBatchCompression(codec))
		var records []*kgo.Record
		for i := range 20 {
			value := fmt.Sprintf("%s %03d", name, i)
			records = append(records, &kgo.Record{Value: []byte(value), Timestamp: before.Add(-time.Hour)})
			want = append(want, value)
		}
		if err := producer.ProduceSync(ctx, records...).FirstErr(); err != nil {
			t.Fatalf("produce with %s: %v", name, err)
		}
	}
	got := fetchCount(t, join(t, c, "ingest"), len(want))
	if diff := gocmp.Diff(want, values(got), anyOrder); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	for _, m := range got {
		if m.Time.Before(before) || m.Time.After(m.FetchedAt) {
			t.Errorf("offset %d %q is dated %v, want the append between %v and %v", m.Offset, m.Value, m.Time, before,
				m.FetchedAt)
		}
		if m.Hole != nil {
			t.Errorf("offset %d has hole %v before it, want none", m.Offset, m.Hole)
		}
	}
}

// TestTransactionMarkersAreTold: a marker takes an offset that nobody can read,
// so it is a hole; and waiting behind one is waiting.
func TestTransactionMarkersAreTold(t *testing.T) { eachForeignBroker(t, testTransactionMarkersAreTold) }

func testTransactionMarkersAreTold(t *testing.T, b *testBroker) {
	ctx := testContext(t)
	c := newTestClient(t, b.addr, onePartition)
	ensure(t, c)
	foreign := foreignClient(t, b.addr, kgo.TransactionalID("foreign"))
	if err := foreign.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"a", "b"} {
		if err := foreign.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if err := foreign.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, c, TopicSamples, 3) // Apache Kafka writes the marker after it has answered
	consumer := join(t, c, "ingest")
	if diff := gocmp.Diff([]string{"a", "b"}, values(fetchCount(t, consumer, 2))); diff != "" {
		t.Errorf("values in the transaction (-want +got):\n%s", diff)
	}
	if err := c.Producer().Produce(ctx, samples(0, 1)); err != nil {
		t.Fatal(err)
	}
	got := fetchCount(t, consumer, 1)[0]
	if diff := gocmp.Diff(&Hole{Partition: 0, From: 2, To: 3}, got.Hole); diff != "" || got.Offset != 3 {
		t.Errorf("message after the marker has offset %d, want 3; hole (-want +got):\n%s", got.Offset, diff)
	}
}

// TestKcatReadsOurs: librdkafka, a third implementation.
func TestKcatReadsOurs(t *testing.T) {
	path, err := exec.LookPath("kcat")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("needs kcat: %v", err)
		}
		t.Skipf("needs kcat: %v", err)
	}
	eachForeignBroker(t, func(t *testing.T, b *testBroker) { testKcatReadsOurs(t, b, path) })
}

func testKcatReadsOurs(t *testing.T, b *testBroker, kcat string) {
	c := newTestClient(t, b.addr, nil)
	ensure(t, c)
	headers := func(seq int) []Header {
		return []Header{
			{Key: "cluster", Value: []byte("alps")},
			{Key: "node", Value: fmt.Appendf(nil, "node-%d", seq%5)},
			{Key: "collector_id", Value: []byte("c-7")},
			{Key: "boot_id", Value: []byte("1772622000000")},
			{Key: "seq", Value: fmt.Append(nil, seq)},
		}
	}
	var sent []Message
	for seq := range 50 {
		sent = append(sent, Message{
			Topic: TopicSamples, Key: fmt.Appendf(nil, "node-%d", seq%5), Headers: headers(seq),
			Value: fmt.Appendf(nil, "\x00\xff\n%s", strings.Repeat("z", seq)),
		})
	}
	if err := c.Producer().Produce(testContext(t), sent); err != nil {
		t.Fatal(err)
	}
	// %S is the value's length in bytes; the value may hold anything.
	cmd := exec.CommandContext(testContext(t), kcat, "-C", "-b", b.addr, "-t", TopicSamples, "-o", "beginning", "-e", "-q",
		"-f", "%p %o %k %h %S %s|")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kcat: %v", err)
	}
	var want []string
	for _, m := range sent {
		var pairs []string
		for _, h := range m.Headers {
			pairs = append(pairs, h.Key+"="+string(h.Value))
		}
		want = append(want,
			fmt.Sprintf("%d %d %s %s %d %s", m.Partition, m.Offset, m.Key, strings.Join(pairs, ","), len(m.Value), m.Value))
	}
	got := strings.Split(strings.TrimSuffix(string(out), "|"), "|")
	if diff := gocmp.Diff(want, got, anyOrder); diff != "" {
		t.Errorf("partition, offset, key, headers, size, value (-produced +kcat):\n%s", diff)
	}
}
