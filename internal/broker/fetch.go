package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// fetched is what a partition's leader answered.
type fetched struct {
	records       kafka.RecordReader
	highWatermark int64
	bytes         int         // size of all batches
	batches       []batchSpan // ascending
}

// fetchFrom asks for messages of a partition from an offset on.
func (c *Consumer) fetchFrom(ctx context.Context, partition int, offset int64) (fetched, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opt.MaxWait+c.client.config.RequestTimeout)
	defer cancel()
	answer, err := c.client.transport.RoundTrip(ctx, c.client.kafka.Addr, &fetchCall{
		clientID: c.client.config.ClientID,
		Request: fetch.Request{
			ReplicaID: -1, SessionID: -1, SessionEpoch: -1,
			MinBytes: int32(c.opt.MinBytes), MaxBytes: int32(c.opt.MaxBytes), MaxWaitTime: int32(c.opt.MaxWait.Milliseconds()),
			Topics: []fetch.RequestTopic{{Topic: c.topic, Partitions: []fetch.RequestPartition{{
				Partition: int32(partition), CurrentLeaderEpoch: -1, FetchOffset: offset, LogStartOffset: -1,
				PartitionMaxBytes: int32(c.opt.MaxBytes),
			}}}},
		},
	})
	if err != nil {
		return fetched{}, err
	}
	res, ok := answer.(*fetchAnswer)
	if !ok || len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 1 {
		return fetched{}, fmt.Errorf("broker's answer %T is not about the one partition asked for", answer)
	}
	p := res.Topics[0].Partitions[0]
	for _, code := range []int16{p.ErrorCode, res.ErrorCode} {
		if code != 0 {
			return fetched{}, kafka.Error(code)
		}
	}
	out := fetched{records: p.RecordSet.Records, highWatermark: p.HighWatermark, bytes: res.bytes, batches: res.batches}
	if out.records == nil {
		out.records = kafka.NewRecordReader()
	}
	return out, nil
}

// fetchCall is a fetch request that reads its answer's bytes before kafka-go
// does: kafka-go v0.4.51 drops a record batch's max timestamp
// (protocol/record_v2.go), and that is where a topic with
// message.timestamp.type=LogAppendTime has the time of the append.
type fetchCall struct {
	fetch.Request
	clientID string
	version  int16
}

// fetchAnswer is kafka-go's response with what it lacks about the batches.
type fetchAnswer struct {
	*fetch.Response
	bytes   int
	batches []batchSpan
}

var _ protocol.RawExchanger = (*fetchCall)(nil)

// Required notes the connection's version of the request; kafka-go calls it
// right before RawExchange, for any connection.
func (f *fetchCall) Required(versions map[protocol.ApiKey]int16) bool {
	f.version = versions[protocol.Fetch]
	return true
}

// RawExchange sends the request and reads the response, alone on the connection
// until it returns.
func (f *fetchCall) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	const correlation = 1
	if err := protocol.WriteRequest(rw, f.version, correlation, f.clientID, &f.Request); err != nil {
		return nil, err
	}
	answer, err := readFrame(rw)
	if err != nil {
		return nil, err
	}
	id, msg, err := protocol.ReadResponse(bytes.NewBuffer(answer), protocol.Fetch, f.version)
	if err != nil {
		return nil, err
	}
	res, ok := msg.(*fetch.Response)
	if !ok || id != correlation {
		return nil, fmt.Errorf("broker answered fetch with %T, correlation id %d, want %d", msg, id, correlation)
	}
	set := recordSet(answer, f.version)
	return &fetchAnswer{Response: res, bytes: len(set), batches: batchSpans(set)}, nil
}

// maxFrameBytes bounds what a broken peer can have us allocate; MaxBytes of the
// request is no bound, since a larger batch still arrives, alone.
const maxFrameBytes = 1 << 30

// readFrame reads one response: its length in 4 bytes, and what they count. The
// length stays in front.
func readFrame(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxFrameBytes {
		return nil, fmt.Errorf("broker answers fetch with %d bytes, limit %d", n, maxFrameBytes)
	}
	frame := make([]byte, 4+n)
	copy(frame, length[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

// recordSet is the record batches in a response about one partition, laid out
// as in Kafka's "Fetch Response" up to version 11; nil where it has none. The
// frame was decoded by kafka-go, so its lengths are sound.
func recordSet(frame []byte, version int16) []byte {
	r := cursor{rest: frame}
	r.skip(4 + 4) // length, correlation id
	if version >= 1 {
		r.skip(4) // throttle time
	}
	if version >= 7 {
		r.skip(2 + 4) // error, session
	}
	r.skip(4)               // count of topics
	r.skip(int(r.uint16())) // name
	r.skip(4 + 4 + 2 + 8)   // count of partitions, partition, error, high watermark
	if version >= 4 {
		r.skip(8) // last stable offset
	}
	if version >= 5 {
		r.skip(8) // log start offset
	}
	if version >= 4 {
		if aborted := int32(r.uint32()); aborted > 0 {
			r.skip(int(aborted) * (8 + 8))
		}
	}
	if version >= 11 {
		r.skip(4) // preferred replica
	}
	if size := int32(r.uint32()); size > 0 {
		return r.rest[:min(int(size), len(r.rest))]
	}
	return nil
}

// cursor reads big-endian numbers; beyond the end all is zero.
type cursor struct{ rest []byte }

func (c *cursor) skip(n int) { c.rest = c.rest[min(n, len(c.rest)):] }

func (c *cursor) uint16() uint16 { return uint16(c.number(2)) }

func (c *cursor) uint32() uint32 { return uint32(c.number(4)) }

func (c *cursor) number(n int) (v uint64) {
	for _, b := range c.rest[:min(n, len(c.rest))] {
		v = v<<8 | uint64(b)
	}
	c.skip(n)
	return v
}

// batchSpan is the offsets [first, last] of a record batch.
type batchSpan struct {
	first, last int64
	bytes       int       // header and all, cut off or not
	appended    time.Time // zero: the records have their producer's times
	bare        bool      // whole, and without a record to hand on: a transaction's marker
}

// batchSpans reads the batches' headers. The last batch may be cut off.
func batchSpans(set []byte) (spans []batchSpan) {
	for len(set) >= batchHeaderBytes && set[batchMagicAt] == 2 {
		size := batchLengthEnds + int(binary.BigEndian.Uint32(set[batchLengthAt:]))
		base := int64(binary.BigEndian.Uint64(set))
		attributes := binary.BigEndian.Uint16(set[batchAttributesAt:])
		span := batchSpan{first: base, last: base + int64(binary.BigEndian.Uint32(set[batchLastDeltaAt:])), bytes: size}
		if attributes&batchAppendTime != 0 {
			span.appended = time.UnixMilli(int64(binary.BigEndian.Uint64(set[batchMaxTimeAt:])))
		}
		if size <= len(set) {
			span.bare = attributes&batchControl != 0 || binary.BigEndian.Uint32(set[batchCountAt:]) == 0
		}
		spans = append(spans, span)
		set = set[min(size, len(set)):]
	}
	return spans
}

// appendTime is when a record was appended, where the broker says so; else
// what its producer said.
func (f *fetched) appendTime(r *kafka.Record) time.Time {
	for len(f.batches) > 0 && r.Offset > f.batches[0].last {
		f.batches = f.batches[1:]
	}
	if len(f.batches) > 0 && r.Offset >= f.batches[0].first && !f.batches[0].appended.IsZero() {
		return f.batches[0].appended
	}
	return r.Time
}
