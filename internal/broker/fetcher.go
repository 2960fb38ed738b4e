package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// fetcher reads one partition from an offset on.
type fetcher struct {
	client    *Client
	topic     string
	group     string // for metrics and errors
	partition int
	opt       ConsumerOptions

	next    int64 // first offset not yet returned; kafka.FirstOffset: not yet known
	at      int64 // next offset to fetch; greater than next inside a hole
	doubted int64 // first offset + 1 of the batch whose checksum was wrong in the last fetch
}

// everything is the end offset of a fetcher without an end.
const everything = math.MaxInt64

// more returns the next messages before an offset and waits for them; it repeats failed requests. Errors: io.EOF at
// the offset, ctx's, and *OffsetError if the next offset is beyond the partition's end.
func (f *fetcher) more(ctx context.Context, to int64) ([]Message, error) {
	for attempt := 0; f.at < to; {
		msgs, err := f.fetch(ctx)
		if errors.Is(err, kafka.OffsetOutOfRange) {
			err = f.skip(ctx)
		}
		var lost *OffsetError
		switch {
		case errors.As(err, &lost):
			return nil, lost
		case err != nil:
			f.client.metrics.errors.WithLabelValues("fetch").Inc()
			if err := f.client.pause(ctx, attempt, "fetch", err, "topic", f.topic, "partition", f.partition, "offset",
				f.at); err != nil {
				return nil, err
			}
			attempt++
		case len(msgs) > 0:
			return msgs, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		default:
			attempt = 0
		}
	}
	return nil, io.EOF
}

// bounds reads the first and last offset of the partition.
func (f *fetcher) bounds(ctx context.Context) (PartitionOffsets, error) {
	bounds, err := f.client.bounds(ctx, f.topic, f.partition)
	if err != nil {
		return PartitionOffsets{}, err
	}
	return bounds[0], nil
}

// skip continues at the oldest retained message, which then reports the hole.
func (f *fetcher) skip(ctx context.Context) error {
	bounds, err := f.bounds(ctx)
	if err == nil && f.at > bounds.Last {
		err = &OffsetError{Topic: f.topic, Group: f.group, Partition: f.partition, Offset: f.at, Last: bounds.Last}
	}
	f.at = max(f.at, bounds.First)
	return err
}

// fetch sends one fetch request and decodes the answer.
func (f *fetcher) fetch(ctx context.Context) ([]Message, error) {
	if f.at == kafka.FirstOffset {
		bounds, err := f.bounds(ctx)
		if err != nil {
			return nil, err
		}
		f.next, f.at = bounds.First, bounds.First
	}
	res, err := f.ask(ctx, f.at)
	if err != nil {
		return nil, err
	}
	msgs, err := f.read(res, func() (int64, error) {
		bounds, err := f.bounds(ctx)
		return bounds.Last, err
	})
	f.client.metrics.setLag(f, max(res.highWatermark-f.next, 0))
	if len(msgs) > 0 {
		return msgs, nil // the rest is fetched again next time
	}
	return nil, err
}

// ask sends one fetch request from an offset on.
func (f *fetcher) ask(ctx context.Context, offset int64) (*fetched, error) {
	ctx, cancel := context.WithTimeout(ctx, f.opt.MaxWait+f.client.config.RequestTimeout)
	defer cancel()
	answer, err := f.client.transport.RoundTrip(ctx, f.client.kafka.Addr, &fetchCall{
		clientID: f.client.config.ClientID,
		Request: fetch.Request{
			ReplicaID: -1, SessionID: -1, SessionEpoch: -1,
			MinBytes: int32(f.opt.MinBytes), MaxBytes: int32(f.opt.MaxBytes), MaxWaitTime: int32(f.opt.MaxWait.Milliseconds()),
			Topics: []fetch.RequestTopic{{Topic: f.topic, Partitions: []fetch.RequestPartition{{
				Partition: int32(f.partition), CurrentLeaderEpoch: -1, FetchOffset: offset, LogStartOffset: -1,
				PartitionMaxBytes: int32(f.opt.MaxBytes),
			}}}},
		},
	})
	if err != nil {
		return nil, err
	}
	res, ok := answer.(*fetched)
	if !ok {
		return nil, fmt.Errorf("broker answers fetch with a %T", answer)
	}
	return res, nil
}

// read turns batches into messages. Batches are sent whole, so they may begin before the requested offset. Batches
// without a record are skipped, since every fetch would return them again; the next message reports them as a hole.
// Other batches must contain the requested offset; if none does, that is an error.
//
// Apache Kafka reads the high watermark before the batches, so an answer may contain batches that were appended in
// between; then the end of the partition is read again.
func (f *fetcher) read(res *fetched, end func() (int64, error)) (msgs []Message, err error) {
	now, from, asked := f.client.clock.Now(), f.at, false
	for set, size := res.set, 0; size < maxFetchedBytes; {
		b, rest, ok := cutBatch(set)
		if !ok {
			break
		}
		set = rest
		if b.last >= res.highWatermark && !asked {
			now, err := end()
			if err != nil {
				return msgs, err
			}
			res.highWatermark, asked = max(res.highWatermark, now), true
		}
		if b.first >= res.highWatermark { // brokers assign offsets themselves
			b.err = fmt.Errorf("batch begins at offset %d, where the partition ends at %d", b.first, res.highWatermark)
			b.first, b.last = f.at, f.at
		}
		switch {
		case !b.covers(f.at, rest):
		case b.bare() && !f.opt.EveryOffset:
			f.at = b.behind(f.at, rest, res.highWatermark)
		default:
			n := 0
			if msgs, n, err = f.take(msgs, &b, b.behind(f.at, rest, res.highWatermark), now); err != nil {
				return msgs, err
			}
			size += n
		}
	}
	if len(res.set) > 0 && f.at == from {
		return msgs, fmt.Errorf("broker answers fetch at offset %d with %d bytes, but no record from there on", from,
			len(res.set))
	}
	return msgs, nil
}

// take returns the messages of a batch, or one message with the error if it can't be read; behind is the next offset
// after it. A batch damaged in transfer is intact when fetched again, so a wrong checksum is an error the first time.
func (f *fetcher) take(msgs []Message, b *batch, behind int64, now time.Time) (_ []Message, size int, _ error) {
	before, like := len(msgs), Message{Topic: f.topic, Partition: f.partition, FetchedAt: now}
	msgs, size, bad := b.messages(msgs, f.at, like, f.client.config.MaxMessageBytes)
	if bad != nil {
		if errors.Is(bad.Err, errChecksum) && f.doubted != b.first+1 {
			f.doubted = b.first + 1
			return msgs[:before], 0, fmt.Errorf("read batch at offset %d: %w", b.first, bad.Err)
		}
		bad.To, msgs[before].Offset = behind, max(b.first, f.at)
	}
	for i := before; i < len(msgs); i++ {
		if m := &msgs[i]; m.Offset > f.next {
			m.Hole = &Hole{Partition: f.partition, From: f.next, To: m.Offset}
		}
		f.next = msgs[i].Next()
	}
	f.at = max(behind, f.next)
	return msgs, size, nil
}

// readerGroup is the label "group" of readers' metrics; readers have no group.
const readerGroup = "(reader)"

// Reader reads part of one partition without a consumer group: it commits nothing and takes no partition from a
// consumer. It is not safe for concurrent use.
type Reader struct {
	f       *fetcher
	to      int64
	pending []Message
}

// Reader reads the offsets [from, to) of a partition. If from is before the oldest retained offset, reading starts
// there, and the first message reports the hole.
func (c *Client) Reader(topic string, partition int, from, to int64, opt ConsumerOptions) *Reader {
	return &Reader{to: to, f: &fetcher{
		client: c, group: readerGroup, topic: topic, partition: partition, opt: opt.withDefaults(), next: from, at: from,
	}}
}

// Read returns up to limit messages in offset order, then io.EOF. Failed requests are repeated until ctx ends.
// Errors: ctx's, and *OffsetError if from is beyond the partition's end.
func (r *Reader) Read(ctx context.Context, limit int) ([]Message, error) {
	for len(r.pending) == 0 {
		msgs, err := r.f.more(ctx, r.to)
		if err != nil {
			return nil, err
		}
		for len(msgs) > 0 && msgs[len(msgs)-1].Offset >= r.to {
			msgs = msgs[:len(msgs)-1]
		}
		r.pending = msgs
	}
	return take(&r.pending, limit), nil
}

// take returns up to limit messages and removes them from pending.
func take(pending *[]Message, limit int) []Message {
	n := min(max(limit, 1), len(*pending))
	out := (*pending)[:n:n]
	*pending = (*pending)[n:]
	return out
}

// Close removes the reader's lag metric.
func (r *Reader) Close() { r.f.client.metrics.dropLag(r.f) }
