package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/gputally/gputally/internal/broker/brokertest"
)

// rawBatch is a record batch with a sound header and checksum around any body.
func rawBatch(codec compress.Compression, count, lastDelta int32, body []byte) []byte {
	b := make([]byte, batchHeaderBytes, batchHeaderBytes+len(body))
	binary.BigEndian.PutUint32(b[batchLengthAt:], uint32(batchHeaderBytes-batchLengthEnds+len(body)))
	b[batchMagicAt], b[batchAttributesAt+1] = 2, byte(codec)
	binary.BigEndian.PutUint32(b[batchLastDeltaAt:], uint32(lastDelta))
	binary.BigEndian.PutUint64(b[batchFirstTimeAt:], uint64(produced.UnixMilli()))
	binary.BigEndian.PutUint64(b[batchMaxTimeAt:], uint64(produced.UnixMilli()))
	binary.BigEndian.PutUint64(b[43:], math.MaxUint64) // no producer id, epoch, sequence
	binary.BigEndian.PutUint64(b[51:], math.MaxUint64)
	binary.BigEndian.PutUint32(b[batchCountAt:], uint32(count))
	return sealed(append(b, body...))
}

func sealed(batch []byte) []byte {
	binary.BigEndian.PutUint32(batch[batchCRCAt:], crc32.Checksum(batch[batchBodyAt:], castagnoli))
	return batch
}

// rawRecord is a record of any fields, with its length in front.
func rawRecord(delta int64, key string, fields ...any) []byte {
	b := binary.AppendVarint([]byte{0, 0}, delta)
	b = append(binary.AppendVarint(b, int64(len(key))), key...)
	for _, f := range fields {
		switch f := f.(type) {
		case int:
			b = binary.AppendVarint(b, int64(f))
		case string:
			b = append(b, f...)
		}
	}
	return append(binary.AppendVarint(nil, int64(len(b))), b...)
}

// squeezed compresses with the codec that Kafka's producers have.
func squeezed(tb testing.TB, codec compress.Compression, body []byte) []byte {
	tb.Helper()
	if codec == compress.None {
		return body
	}
	var out bytes.Buffer
	w := codec.Codec().NewWriter(&out)
	_, err := w.Write(body)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

var allCodecs = []compress.Compression{compress.None, compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd}

// hostile is a batch that can't be read; key is what can be told of it.
type hostile struct {
	name        string
	batch       []byte
	reason, key string
	kafka       bool // Apache Kafka takes it
}

// hostiles are the batches of the attacks: H3's and H4's, and kafka-go#1438's.
func hostiles(tb testing.TB) (out []hostile) {
	sound := rawRecord(0, "n1", 1, "v", 0)
	add := func(name string, count, last int32, body []byte, key string) {
		out = append(out, hostile{name, rawBatch(compress.None, count, last, body), ReasonRecord, key, false})
	}
	add("2^40 headers", 1, 0, rawRecord(0, "n1", 1, "v", 1<<40), "n1")
	add("-3 headers", 1, 0, rawRecord(0, "n1", 1, "v", -3), "n1")
	add("a header name of 2^40 bytes", 1, 0, rawRecord(0, "n1", 1, "v", 1, 1<<40, "k", 1, "v"), "n1")
	add("-1 records", -1, -2, sound, "")
	add("-2^31 records", math.MinInt32, math.MaxInt32, sound, "")
	add("2^31-1 records", math.MaxInt32, math.MaxInt32-1, sound, "n1")
	add("more records than bytes", 100, 99, sound, "n1")
	add("one record more than there are", 2, 1, bytes.Repeat(sound, 1), "n1")
	add("one record less than there are", 1, 0, append(bytes.Clone(sound), rawRecord(1, "n1", 1, "v", 0)...), "n1")
	add("a record beyond the batch", 1, 0, append(binary.AppendVarint(nil, 1<<30), sound[1:]...), "n1")
	add("a negative length", 1, 0, append(binary.AppendVarint(nil, -5), sound[1:]...), "n1")
	add("a length that never ends", 1, 0, bytes.Repeat([]byte{0xff}, 20), "")
	add("a key of 2^40 bytes", 1, 0, append([]byte{20, 0, 0, 0}, binary.AppendVarint(nil, 1<<40)...), "")
	add("a key of -2 bytes", 1, 0, append([]byte{10, 0, 0, 0}, 3, 0, 0), "")
	add("a value of 2^40 bytes", 1, 0, rawRecord(0, "n1", 1<<40, "v", 0), "n1")
	add("bytes behind the headers", 1, 0, rawRecord(0, "n1", 1, "v", 0, "more"), "n1")
	add("an offset delta twice", 2, 1, append(bytes.Clone(sound), sound...), "n1")
	add("an offset delta beyond the batch", 1, 0, rawRecord(1, "n1", 1, "v", 0), "n1")
	add("a negative offset delta", 1, 0, rawRecord(-1, "n1", 1, "v", 0), "n1")
	add("no records, one claimed", 1, 0, nil, "")
	wrong := rawBatch(compress.None, 1, 0, sound)
	wrong[len(wrong)-1] ^= 1
	out = append(out, hostile{"another checksum", wrong, ReasonRecord, "", false})
	old := rawBatch(compress.None, 1, 0, sound)
	old[batchMagicAt] = 1
	out = append(out, hostile{"format 1", old, ReasonRecord, "", false})
	short := rawBatch(compress.None, 1, 0, sound)
	binary.BigEndian.PutUint32(short[batchLengthAt:], 40)
	out = append(out, hostile{"a length within the header", short, ReasonRecord, "", false})
	return append(out, bombs(tb)...)
}

// bombs are batches that are more than they seem.
func bombs(tb testing.TB) (out []hostile) {
	large := rawRecord(0, "n1", 2*maxBatchBytes, string(make([]byte, 2*maxBatchBytes)), 0)
	var many []byte
	for i := range maxBatchEntries + 1 {
		many = append(many, rawRecord(int64(i), "", 0, "", 0)...)
	}
	headers := rawRecord(0, "n1", 0, maxBatchEntries, string(make([]byte, 2*maxBatchEntries)))
	for _, codec := range allCodecs {
		if codec != compress.None {
			out = append(out, hostile{
				codec.String() + " bomb", rawBatch(codec, 1, 0, squeezed(tb, codec, large)),
				ReasonTooLarge, "n1", true,
			})
			cut := squeezed(tb, codec, bytes.Repeat([]byte("abcdefghi"), 1000))
			out = append(out, hostile{
				codec.String() + " cut off", rawBatch(codec, 1, 0, cut[:len(cut)/2]), ReasonRecord,
				"", false,
			})
			out = append(out, hostile{codec.String() + " of noise", rawBatch(codec, 1, 0, noise(1000)), ReasonRecord, "", false})
		}
		out = append(out, hostile{
			codec.String() + " of records without anything",
			rawBatch(codec, maxBatchEntries+1, maxBatchEntries, squeezed(tb, codec, many)), ReasonTooLarge, "", true,
		})
		out = append(out, hostile{
			codec.String() + " of headers without anything",
			rawBatch(codec, 1, 0, squeezed(tb, codec, headers)), ReasonTooLarge, "n1", true,
		})
	}
	add := func(name string, codec compress.Compression, body []byte, reason string) {
		out = append(out, hostile{name, rawBatch(codec, 1, 0, body), reason, "", false})
	}
	add("no codec of Kafka's", 7, noise(100), ReasonRecord)
	add("snappy of 4 GiB, it says", compress.Snappy, append(binary.AppendUvarint(nil, math.MaxUint32-16), noise(30)...),
		ReasonTooLarge)
	block := append(bytes.Clone(xerial), 0, 0, 0, 1, 0, 0, 0, 1)
	add("xerial block of 4 GiB, it says", compress.Snappy, append(bytes.Clone(block), 0xff, 0xff, 0xff, 0xff, 1),
		ReasonRecord)
	for range 40 { // small blocks, nested one behind the other
		some := snappy.Encode(nil, make([]byte, 1<<20))
		block = append(binary.BigEndian.AppendUint32(block, uint32(len(some))), some...)
	}
	add("xerial blocks", compress.Snappy, block, ReasonTooLarge)
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd}
	add("zstd of 2^62 bytes, it says", compress.Zstd,
		append(bytes.Clone(frame), 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x40, 1, 0, 0), ReasonTooLarge)
	add("zstd of a window of 3.75 TiB", compress.Zstd, append(bytes.Clone(frame), 0, 0xff, 1, 0, 0), ReasonRecord)
	small, err := zstd.NewWriter(nil)
	if err != nil {
		tb.Fatal(err)
	}
	add("zstd frames", compress.Zstd, bytes.Repeat(small.EncodeAll(make([]byte, 1<<20), nil), 2*maxBatchBytes>>20),
		ReasonTooLarge)
	return out
}

// allocated is what do allocates, in bytes.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestH3H4HostileBatchesAreTold: each with its reason, the key that can be told, and
// without more memory or time than a sound batch may take.
func TestH3H4HostileBatchesAreTold(t *testing.T) {
	for _, h := range hostiles(t) {
		b, _, ok := cutBatch(h.batch)
		if !ok {
			t.Errorf("%s: no batch", h.name)
			continue
		}
		var msgs []Message
		var bad *Unreadable
		began := time.Now()
		bytes := allocated(func() { msgs, _, bad = b.messages(nil, 0, Message{Topic: TopicSamples}, 10<<20) })
		took := time.Since(began)
		if bad == nil || len(msgs) != 1 || bad.Reason != h.reason || bad.Err == nil {
			t.Errorf("%s: %d messages, %+v, want reason %s", h.name, len(msgs), bad, h.reason)
			continue
		}
		if got := msgs[0]; string(got.Key) != h.key || got.Bad != bad || len(got.Value) != len(b.raw) {
			t.Errorf("%s: key %q and %d bytes, want %q and %d", h.name, got.Key, len(got.Value), h.key, len(b.raw))
		}
		if bytes > 4*maxBatchBytes { // a buffer that grows, each time anew
			t.Errorf("%s: %d bytes were allocated, want %d at most", h.name, bytes, 4*maxBatchBytes)
		}
		if took > 5*time.Second { // some ms as a rule; the machine may be busy
			t.Errorf("%s: took %v", h.name, took)
		}
		t.Logf("%-42s %8d bytes, %9d allocated, %v: %v", h.name, len(h.batch), bytes, took.Round(time.Microsecond), bad.Err)
	}
}

// sendRaw produces a batch as it is, and says what the broker answered.
func sendRaw(tb testing.TB, addr string, batch []byte) error {
	tb.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 30_000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = TopicSamples
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = batch
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	client := foreignClient(tb, addr, kgo.MaxVersions(kversion.V2_8_0())) // names, not ids, of topics
	if err := client.Ping(testContext(tb)); err != nil {
		tb.Fatal(err)
	}
	res, err := client.DiscoveredBrokers()[0].Request(testContext(tb), req)
	if err != nil {
		tb.Fatal(err)
	}
	if code := res.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
		return kafka.Error(code)
	}
	return nil
}

// TestH3H4HostileBatchesAreSteppedOver: whatever the broker took, the consumer gets
// one message of its place and reason, and all that is sound around it.
func TestH3H4HostileBatchesAreSteppedOver(t *testing.T) {
	t.Run("kfake", func(t *testing.T) {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(100*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cluster.Close)
		testHostileBatchesAreSteppedOver(t, cluster.ListenAddrs()[0], 20)
	})
	t.Run("apache", func(t *testing.T) {
		testHostileBatchesAreSteppedOver(t, brokertest.Kafka(t).Addr(), 5)
	})
}

func testHostileBatchesAreSteppedOver(t *testing.T, addr string, least int) {
	c := newTestClient(t, addr, onePartition)
	ensure(t, c)
	var want []string
	next, taken := int64(0), 0
	for i, h := range hostiles(t) {
		msg := samples(i, i+1)
		if err := c.Producer().Produce(testContext(t), msg); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("%d-%d %s", next, next+1, msg[0].Value))
		next++
		count := int32(binary.BigEndian.Uint32(h.batch[batchCountAt:]))
		if count < 0 || count > maxBatchEntries+1 {
			continue // moves kfake's end of the partition: the embedded broker refuses it
		}
		if err := sendRaw(t, addr, h.batch); err != nil {
			if h.kafka {
				t.Errorf("%s is refused, want it taken: %v", h.name, err)
			}
			continue
		}
		taken++
		want = append(want, fmt.Sprintf("%d-%d %s %s", next, next+int64(count), h.reason, h.key))
		next += int64(count)
	}
	if taken < least {
		t.Errorf("the broker took %d hostile batches, want %d at least: nothing is tried", taken, least)
	}
	if err := c.Producer().Produce(testContext(t), samples(999, 1000)); err != nil {
		t.Fatal(err)
	}
	want = append(want, fmt.Sprintf("%d-%d value-999", next, next+1))
	consumer := join(t, c, "ingest")
	msgs := fetchCount(t, consumer, len(want))
	var got []string
	for _, m := range msgs {
		text := string(m.Value)
		if m.Bad != nil {
			text = m.Bad.Reason + " " + string(m.Key)
		}
		if m.Hole != nil {
			t.Errorf("offset %d has hole %v", m.Offset, m.Hole)
		}
		got = append(got, fmt.Sprintf("%d-%d %s", m.Offset, m.Next(), text))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("offsets and messages (-want +got):\n%s", diff)
	}
	if err := consumer.Commit(testContext(t), msgs[:len(msgs)-1]); err != nil {
		t.Fatal(err)
	}
	offsets, err := c.Offsets(testContext(t), TopicSamples, "ingest")
	if err != nil || offsets[0].Committed != next {
		t.Errorf("committed %+v, %v, want %d", offsets, err, next)
	}
}

// TestH3EmbeddedBrokerRefusesWhatCannotBeRead: nothing of it gets an offset, and
// what is sound does.
func TestH3EmbeddedBrokerRefusesWhatCannotBeRead(t *testing.T) {
	embedded := startWith(t, EmbeddedOptions{Dir: t.TempDir(), listen: foreignDoor})
	c := newTestClient(t, embedded.Addr(), onePartition)
	ensure(t, c)
	for _, h := range append(hostiles(t),
		hostile{name: "offsets without a record", batch: rawBatch(compress.None, 1, 9, rawRecord(0, "", 0, 0))}) {
		if err := sendRaw(t, embedded.Addr(), h.batch); err == nil {
			t.Errorf("%s was taken", h.name)
		}
	}
	for _, codec := range allCodecs {
		body := append(rawRecord(0, "n1", 1, "v", 0), rawRecord(1, "n1", -1, 1, 1, "h", -1)...)
		if err := sendRaw(t, embedded.Addr(), rawBatch(codec, 2, 1, squeezed(t, codec, body))); err != nil {
			t.Errorf("a sound batch with codec %s: %v", codec, err)
		}
	}
	offsets, err := c.Offsets(testContext(t), TopicSamples, "ingest")
	if err != nil || offsets[0].Last != 10 {
		t.Errorf("offsets %+v, %v, want 10 at the end", offsets, err)
	}
}

// TestLieAboutOffsetsIsBounded: by the next batch, or by the partition's end.
func TestLieAboutOffsetsIsBounded(t *testing.T) {
	lie := rawBatch(compress.None, 1, math.MaxInt32, rawRecord(0, "n1", 1<<40, "v", 0))
	for _, test := range []struct {
		name     string
		behind   []byte
		at, end  int64
		from, to int64
	}{
		{"the partition's end", nil, 0, 7, 0, 7},
		{"the next batch", stampedBatch(t, 3, produced, "a"), 0, 7, 0, 3},
		{"the next batch, cut off", stampedBatch(t, 3, produced, "a")[:20], 0, 7, 0, 3},
		{"in its midst", nil, 5, 7, 5, 7},
		{"an end before it", nil, 0, 0, 0, 1},
	} {
		f := readerOf(t)
		f.at, f.next = test.at, test.at
		msgs, err := f.read(&fetched{set: append(bytes.Clone(lie), test.behind...), highWatermark: test.end},
			endsAt(test.end))
		if err != nil || len(msgs) == 0 || msgs[0].Bad == nil || msgs[0].Offset != test.from || msgs[0].Next() != test.to {
			t.Errorf("%s: %+v, %v, want offsets [%d, %d)", test.name, msgs, err, test.from, test.to)
		}
	}
}

// TestABatchNewerThanTheHighWatermarkIsRead: Apache Kafka notes the watermark before
// it reads the batches, and what was appended in between is no lie.
func TestABatchNewerThanTheHighWatermarkIsRead(t *testing.T) {
	set := append(stampedBatch(t, 0, produced, "a", "b"), stampedBatch(t, 2, produced, "c", "d")...)
	for _, noted := range []int64{0, 1, 2, 3, 4, 9} {
		asked := false
		res := &fetched{set: set, highWatermark: noted}
		msgs, err := readerOf(t).read(res, func() (int64, error) { asked = true; return 4, nil })
		if want := max(noted, 4); res.highWatermark != want || asked != (noted < 4) {
			t.Errorf("high watermark %d: the partition ends at %d, asked: %t, want %d", noted, res.highWatermark, asked, want)
		}
		if err != nil || len(msgs) != 4 || msgs[0].Bad != nil || msgs[3].Bad != nil {
			t.Errorf("high watermark %d: %+v, %v, want 4 messages", noted, msgs, err)
		}
	}
	if _, err := readerOf(t).read(&fetched{set: set}, func() (int64, error) { return 0, errCutOff }); !errors.Is(err,
		errCutOff) {
		t.Errorf("the broker does not say: %v, want its error", err)
	}
}

// readerOf is a fetcher that asks nobody.
func readerOf(tb testing.TB) *fetcher {
	return &fetcher{client: newTestClient(tb, "127.0.0.1:1", nil), topic: TopicSamples}
}

// endsAt is what a partition's leader says of its end.
func endsAt(offset int64) func() (int64, error) { return func() (int64, error) { return offset, nil } }

// TestWrongChecksumIsFetchedAgain: what was damaged on its way is whole then.
func TestWrongChecksumIsFetchedAgain(t *testing.T) {
	whole := stampedBatch(t, 0, produced, "a", "b")
	damaged := bytes.Clone(whole)
	damaged[len(damaged)-1] ^= 1
	f := readerOf(t)
	if msgs, err := f.read(&fetched{set: damaged, highWatermark: 2}, endsAt(2)); err == nil || len(msgs) != 0 {
		t.Errorf("the first time: %v, %v, want an error", msgs, err)
	}
	if msgs, err := f.read(&fetched{set: whole, highWatermark: 2}, endsAt(2)); err != nil || len(msgs) != 2 ||
		msgs[0].Bad != nil {
		t.Errorf("whole again: %v, %v", msgs, err)
	}
	f = readerOf(t)
	f.doubted = 1
	if msgs, err := f.read(&fetched{set: damaged, highWatermark: 2}, endsAt(2)); err != nil || len(msgs) != 1 ||
		msgs[0].Bad == nil || msgs[0].Next() != 2 {
		t.Errorf("the second time: %v, %v, want one unreadable message of both offsets", msgs, err)
	}
}

// TestFetchStopsAtItsLimit: many batches that are large inside come over several
// fetches, each of them once.
func TestFetchStopsAtItsLimit(t *testing.T) {
	body := rawRecord(0, "n1", 8<<20, string(make([]byte, 8<<20)), 0)
	var set []byte
	for i := range 9 {
		b := rawBatch(compress.Zstd, 1, 0, squeezed(t, compress.Zstd, body))
		binary.BigEndian.PutUint64(b, uint64(i))
		set = append(set, b...)
	}
	f := readerOf(t)
	for rounds := 0; f.next < 9; rounds++ {
		msgs, err := f.read(&fetched{set: set, highWatermark: 9}, endsAt(9))
		if err != nil || len(msgs) > 3 || rounds > 9 {
			t.Fatalf("round %d: %d messages, %v", rounds, len(msgs), err)
		}
	}
	f = readerOf(t)
	f.client.config.MaxMessageBytes = 8 << 20
	if msgs, err := f.read(&fetched{set: set, highWatermark: 9}, endsAt(9)); err != nil || msgs[0].Bad == nil ||
		msgs[0].Bad.Reason != ReasonTooLarge ||
		string(msgs[0].Key) != "n1" || msgs[0].Next() != 1 || len(msgs[0].Value) != 8<<20 {
		t.Errorf("a record over the limit: %+v, %v", msgs[0].Bad, err)
	}
}

// recordSets are sets of the codecs as our producer and others make them.
func recordSets(tb testing.TB, codec compress.Compression, batches, records int) []byte {
	tb.Helper()
	var set []byte
	for n := range batches {
		var list []kafka.Record
		for i, m := range samples(n*records, (n+1)*records) {
			r := kafka.Record{Time: produced, Key: kafka.NewBytes(m.Key), Value: kafka.NewBytes(fmt.Appendf(nil, "%0400d", i*i))}
			for _, h := range []string{"cluster", "node", "collector_id", "boot_id", "seq"} {
				r.Headers = append(r.Headers, kafka.Header{Key: h, Value: m.Value})
			}
			list = append(list, r)
		}
		var buf bytes.Buffer
		rs := protocol.RecordSet{Version: 2, Attributes: protocol.Attributes(codec), Records: kafka.NewRecordReader(list...)}
		if _, err := rs.WriteTo(&buf); err != nil {
			tb.Fatal(err)
		}
		b := buf.Bytes()[4:]
		binary.BigEndian.PutUint64(b, uint64(n*records))
		set = append(set, b...)
	}
	return set
}

// TestRecordsAreThoseOfKafkaGo, of every codec.
func TestRecordsAreThoseOfKafkaGo(t *testing.T) {
	for _, codec := range allCodecs {
		set := recordSets(t, codec, 3, 50)
		f := readerOf(t)
		msgs, err := f.read(&fetched{set: set, highWatermark: 150}, endsAt(150))
		if err != nil {
			t.Fatal(err)
		}
		want := byKafkaGo(t, set)
		for i := range msgs {
			msgs[i].FetchedAt, msgs[i].Topic = time.Time{}, ""
		}
		if diff := cmp.Diff(want, msgs); diff != "" {
			t.Errorf("%s (-kafka-go +ours):\n%s", codec, diff)
		}
	}
}

// byKafkaGo reads a record set with kafka-go, whole.
func byKafkaGo(tb testing.TB, set []byte) (msgs []Message) {
	var rs protocol.RecordSet
	framed := append(binary.BigEndian.AppendUint32(nil, uint32(len(set))), set...)
	if _, err := rs.ReadFrom(bytes.NewBuffer(framed)); err != nil {
		tb.Fatal(err)
	}
	for {
		r, err := rs.Records.ReadRecord()
		if err != nil {
			return msgs
		}
		m := Message{Offset: r.Offset, Time: r.Time}
		if m.Key, err = kafka.ReadAll(r.Key); err != nil {
			tb.Fatal(err)
		}
		if m.Value, err = kafka.ReadAll(r.Value); err != nil {
			tb.Fatal(err)
		}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, Header{Key: h.Key, Value: h.Value})
		}
		msgs = append(msgs, m)
	}
}

// BenchmarkRecords: a fetch of 1,000 messages of some 500 bytes, by kafka-go, as it
// was, and by this package.
func BenchmarkRecords(b *testing.B) {
	for _, codec := range allCodecs {
		set := recordSets(b, codec, 2, 500)
		b.Run(codec.String()+"/kafka-go", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n := len(byKafkaGo(b, set)); n != 1000 {
					b.Fatal(n)
				}
			}
		})
		b.Run(codec.String()+"/ours", func(b *testing.B) {
			b.ReportAllocs()
			client := readerOf(b).client
			for b.Loop() {
				f := &fetcher{client: client, topic: TopicSamples}
				if msgs, err := f.read(&fetched{set: set, highWatermark: 1000}, endsAt(1000)); err != nil || len(msgs) != 1000 {
					b.Fatal(len(msgs), err)
				}
			}
		})
	}
}

// FuzzRecordSet: no bytes make it panic, stand still, hand on an offset twice or out
// of order, or take more than a batch may.
func FuzzRecordSet(f *testing.F) {
	for _, h := range hostiles(f) {
		if len(h.batch) < 100_000 {
			f.Add(h.batch, false)
			f.Add(h.batch, true)
		}
	}
	for _, codec := range allCodecs {
		f.Add(recordSets(f, codec, 2, 3), true)
	}
	client := readerOf(f).client
	f.Fuzz(func(t *testing.T, set []byte, seal bool) {
		if b, _, ok := cutBatch(set); seal && ok && len(b.raw) >= batchHeaderBytes {
			set = bytes.Clone(set) // so that mutations get beyond the checksum
			b, _, _ = cutBatch(set)
			sealed(b.raw)
		}
		const end = 1 << 20
		reader := &fetcher{client: client, topic: TopicSamples, doubted: 1}
		began := time.Now()
		var msgs []Message
		taken := allocated(func() { msgs, _ = reader.read(&fetched{set: set, highWatermark: end}, endsAt(end)) })
		if taken > 6*maxBatchBytes || time.Since(began) > 10*time.Second {
			t.Errorf("%d bytes: %d allocated in %v", len(set), taken, time.Since(began))
		}
		next := int64(0)
		for _, m := range msgs {
			if m.Offset < next || m.Next() <= m.Offset {
				t.Errorf("message of [%d, %d) behind offset %d", m.Offset, m.Next(), next)
			}
			next = m.Next()
		}
		if reader.at < reader.next {
			t.Errorf("fetches next at %d, behind %d", reader.at, reader.next)
		}
	})
}
