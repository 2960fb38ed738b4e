package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// fetched is what a partition's leader answered.
type fetched struct {
	set           []byte // the record batches as the broker has them; the last may be cut off
	highWatermark int64
}

// end is where the partition ends. Apache Kafka notes the high watermark before it
// reads the batches, so an answer may hold batches that were appended in between:
// then the partition is asked where it ends now.
func (f fetched) end(ask func() (int64, error)) (int64, error) {
	for set := f.set; ; {
		b, rest, ok := cutBatch(set)
		if !ok {
			return f.highWatermark, nil
		}
		if b.last >= f.highWatermark {
			now, err := ask()
			return max(now, f.highWatermark), err
		}
		set = rest
	}
}

// ApiKey makes it a protocol.Message.
func (*fetched) ApiKey() protocol.ApiKey { return protocol.Fetch }

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
	res, ok := answer.(*fetched)
	if !ok {
		return fetched{}, fmt.Errorf("broker answers fetch with a %T", answer)
	}
	return *res, nil
}

// fetchCall is a fetch request that reads its answer itself: kafka-go v0.4.51
// believes every length and count of a record (protocol/record_v2.go), and drops a
// batch's max timestamp, which is where a topic with
// message.timestamp.type=LogAppendTime has the time of the append.
type fetchCall struct {
	fetch.Request
	clientID string
	version  int16
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
	asked := f.Topics[0]
	res, err := parseFetch(answer, f.version, correlation, asked.Topic, asked.Partitions[0].Partition)
	if err != nil {
		return nil, err
	}
	return res, nil
}

// maxFrameBytes bounds what a broken peer can have us allocate; MaxBytes of the
// request is no bound, since a larger batch still arrives, alone, if the topic's
// max.message.bytes lets it in.
const maxFrameBytes = 64 << 20

// readFrame reads one response: its length in 4 bytes, and what they count, which
// it returns.
func readFrame(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxFrameBytes {
		return nil, fmt.Errorf("broker answers fetch with %d bytes, limit %d", n, maxFrameBytes)
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(r, frame)
	return frame, err
}

// errCutOff is an answer that is shorter than it says.
var errCutOff = errors.New("broker's answer to fetch is cut off")

// parseFetch reads a response about the one partition asked for, laid out as in
// Kafka's "Fetch Response" up to version 11.
func parseFetch(frame []byte, version int16, correlation int32, topic string, partition int32) (*fetched, error) {
	r := cursor{rest: frame}
	id := int32(r.number(4))
	if version >= 1 {
		r.skip(4) // throttle time
	}
	code := kafka.Error(0)
	if version >= 7 {
		code = kafka.Error(int16(r.number(2)))
		r.skip(4) // session
	}
	switch {
	case r.short:
		return nil, errCutOff
	case id != correlation:
		return nil, fmt.Errorf("broker answers fetch with correlation id %d, want %d", id, correlation)
	case code != 0:
		return nil, code
	}
	topics := r.number(4)
	name := string(r.take(int64(r.number(2))))
	partitions, number := r.number(4), int32(r.number(4))
	code = kafka.Error(int16(r.number(2)))
	out := &fetched{highWatermark: int64(r.number(8))}
	if version >= 4 {
		r.skip(8) // last stable offset
	}
	if version >= 5 {
		r.skip(8) // log start offset
	}
	if version >= 4 {
		r.take(max(int64(int32(r.number(4))), 0) * (8 + 8)) // aborted transactions
	}
	if version >= 11 {
		r.skip(4) // preferred replica
	}
	out.set = r.take(max(int64(int32(r.number(4))), 0))
	switch {
	case topics != 1 || partitions != 1 || name != topic || number != partition:
		return nil, fmt.Errorf("broker answers fetch about %d topics, %d partitions, want topic %s partition %d", topics, partitions, topic, partition)
	case code != 0:
		return nil, code
	case r.short:
		return nil, errCutOff
	}
	return out, nil
}

// cursor reads big-endian numbers; beyond the end all is zero.
type cursor struct {
	rest  []byte
	short bool
}

func (c *cursor) skip(n int) { c.take(int64(n)) }

func (c *cursor) uint16() uint16 { return uint16(c.number(2)) }

func (c *cursor) uint32() uint32 { return uint32(c.number(4)) }

func (c *cursor) take(n int64) []byte {
	if n > int64(len(c.rest)) {
		c.short, c.rest = true, nil
		return nil
	}
	out := c.rest[:n:n]
	c.rest = c.rest[n:]
	return out
}

func (c *cursor) number(n int64) (v uint64) {
	for _, b := range c.take(n) {
		v = v<<8 | uint64(b)
	}
	return v
}
