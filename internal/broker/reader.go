package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go"
)

// readerGroup stands for the group where readers are counted: they have none.
const readerGroup = "(reader)"

// Reader reads part of one partition, outside any group: it commits nothing and
// takes no partition from a consumer. It is for one goroutine.
type Reader struct {
	f       *fetcher
	to      int64
	pending []Message
}

// Reader reads the offsets [from, to) of a partition. An offset before the
// oldest retained one reads on from there, and the first message tells of the hole.
func (c *Client) Reader(topic string, partition int, from, to int64, opt ConsumerOptions) *Reader {
	consumer := &Consumer{client: c, group: readerGroup, topic: topic, opt: opt.withDefaults()}
	return &Reader{f: &fetcher{consumer: consumer, partition: partition, next: from, at: from}, to: to}
}

// Read returns up to limit messages, in offset order, and io.EOF once there are
// none left. What the broker fails to answer is asked for again until ctx ends.
// Errors: ctx's, and *OffsetError where from lies beyond the partition's end.
func (r *Reader) Read(ctx context.Context, limit int) ([]Message, error) {
	c := r.f.consumer
	for attempt := 0; len(r.pending) == 0; {
		if r.f.at >= r.to {
			return nil, io.EOF
		}
		msgs, err := r.f.fetch(ctx)
		if errors.Is(err, kafka.OffsetOutOfRange) {
			err = r.f.skip(ctx)
		}
		var lost *OffsetError
		switch {
		case errors.As(err, &lost):
			return nil, lost
		case err != nil:
			if err := c.client.pause(ctx, attempt, "read", err, "topic", c.topic, "partition", r.f.partition, "offset", r.f.at); err != nil {
				return nil, err
			}
			attempt++
			continue
		}
		attempt = 0
		r.pending = before(msgs, r.to)
	}
	n := min(max(limit, 1), len(r.pending))
	out := r.pending[:n:n]
	r.pending = r.pending[n:]
	return out, nil
}

// Close forgets the reader's gauge.
func (r *Reader) Close() {
	c := r.f.consumer
	c.client.metrics.dropLag(c.topic, c.group, r.f.partition)
}

func before(msgs []Message, offset int64) []Message {
	for i := range msgs {
		if msgs[i].Offset >= offset {
			return msgs[:i]
		}
	}
	return msgs
}

// OffsetsAt is, by partition, the offset of the first message that was appended
// at or after the instant; of a partition without one, its end.
func (c *Client) OffsetsAt(ctx context.Context, topic string, at time.Time) (map[int]int64, error) {
	n, err := c.partitionCount(ctx, topic)
	if err != nil {
		return nil, err
	}
	var asked []kafka.OffsetRequest
	partitions := make([]int, n)
	for p := range n {
		partitions[p] = p
		asked = append(asked, kafka.TimeOffsetOf(p, at))
	}
	bounds, err := c.bounds(ctx, topic, partitions...)
	if err != nil {
		return nil, err
	}
	out := make(map[int]int64, n)
	for _, b := range bounds {
		out[b.Partition] = b.Last
	}
	ctx, cancel := c.request(ctx)
	defer cancel()
	res, err := c.kafka.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: asked}})
	if err != nil {
		return nil, fmt.Errorf("find offsets of topic %q at %s: %w", topic, at.UTC().Format(time.RFC3339), err)
	}
	for _, p := range res.Topics[topic] {
		if p.Error != nil {
			return nil, fmt.Errorf("find offset of topic %q partition %d at %s: %w", topic, p.Partition, at.UTC().Format(time.RFC3339), p.Error)
		}
		for offset := range p.Offsets {
			if offset >= 0 { // -1: no message is that late
				out[p.Partition] = offset
			}
		}
	}
	return out, nil
}
