package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
)

// generation is one assignment of partitions to this member. Its messages die
// with it: whoever is assigned next starts at the committed offset.
type generation struct {
	kafka    *kafka.Generation
	starts   map[int]int64
	arriving chan []Message
	pending  []Message // touched by Fetch alone
}

func newGeneration(g *kafka.Generation, topic string) *generation {
	gen := &generation{kafka: g, starts: map[int]int64{}, arriving: make(chan []Message)}
	for _, a := range g.Assignments[topic] {
		gen.starts[a.ID] = a.Offset
	}
	return gen
}

// take hands out up to limit messages, as many as are there without waiting.
func (g *generation) take(limit int) []Message {
	for len(g.pending) < limit {
		select {
		case msgs := <-g.arriving:
			g.pending = append(g.pending, msgs...)
			continue
		default:
		}
		break
	}
	n := min(limit, len(g.pending))
	out := g.pending[:n:n]
	g.pending = g.pending[n:]
	return out
}

// commit commits the next offsets to read, by partition. An offset before the
// generation's start would move the group back, so it is refused.
func (g *generation) commit(topic string, next map[int]int64) error {
	if g == nil {
		return ErrNotAssigned
	}
	for partition, offset := range next {
		if start, ok := g.starts[partition]; !ok || offset < start {
			return fmt.Errorf("partition %d offset %d: %w", partition, offset, ErrNotAssigned)
		}
	}
	err := g.kafka.CommitOffsets(map[string]map[int]int64{topic: next})
	if err == nil {
		return nil
	}
	// Without an answer the generation's connection is lost, and it with it.
	var code kafka.Error
	if !errors.As(err, &code) || code == kafka.IllegalGeneration || code == kafka.UnknownMemberId || code == kafka.RebalanceInProgress {
		return fmt.Errorf("%w: %w", ErrNotAssigned, err)
	}
	return err
}

// fetcher reads one partition for one generation.
type fetcher struct {
	consumer  *Consumer
	gen       *generation
	partition int
	next      int64 // first offset not yet handed on
	at        int64 // where to fetch; beyond next inside a hole
	doubted   int64 // first offset, plus one, of the batch whose checksum was wrong when it was fetched last
}

// run reads from offset on, or from the oldest message if that is
// kafka.FirstOffset, until ctx ends.
func (f *fetcher) run(ctx context.Context, offset int64) {
	c := f.consumer
	defer c.client.metrics.dropLag(c.topic, c.group, f.partition)
	if !f.seek(ctx, offset) {
		return
	}
	for attempt := 0; ctx.Err() == nil; {
		msgs, err := f.fetch(ctx)
		if errors.Is(err, kafka.OffsetOutOfRange) {
			err = f.skip(ctx)
		}
		var lost *OffsetError
		switch {
		case errors.As(err, &lost):
			c.fail(lost)
			return
		case err != nil:
			c.client.metrics.errors.WithLabelValues("fetch").Inc()
			if c.client.pause(ctx, attempt, "fetch", err, "topic", c.topic, "partition", f.partition, "offset", f.at) != nil {
				return
			}
			attempt++
			continue
		}
		attempt = 0
		if len(msgs) == 0 {
			continue
		}
		select {
		case f.gen.arriving <- msgs:
		case <-ctx.Done():
			return
		}
	}
}

func (f *fetcher) seek(ctx context.Context, offset int64) bool {
	f.next, f.at = offset, offset
	if offset >= 0 {
		return true
	}
	c := f.consumer
	for attempt := 0; ; attempt++ {
		bounds, err := c.client.bounds(ctx, c.topic, f.partition)
		if err == nil {
			f.next, f.at = bounds[0].First, bounds[0].First
			return true
		}
		if c.client.pause(ctx, attempt, "find first offset", err, "topic", c.topic, "partition", f.partition) != nil {
			return false
		}
	}
}

// skip moves on to the oldest retained message; the hole is told with it.
func (f *fetcher) skip(ctx context.Context) error {
	c := f.consumer
	bounds, err := c.client.bounds(ctx, c.topic, f.partition)
	if err != nil {
		return err
	}
	if f.at > bounds[0].Last {
		return &OffsetError{Topic: c.topic, Group: c.group, Partition: f.partition, Offset: f.at, Last: bounds[0].Last}
	}
	f.at = max(f.at, bounds[0].First)
	return nil
}

func (f *fetcher) fetch(ctx context.Context) ([]Message, error) {
	c := f.consumer
	res, err := c.fetchFrom(ctx, f.partition, f.at)
	if err != nil {
		return nil, err
	}
	res.highWatermark, err = res.end(func() (int64, error) {
		bounds, err := c.client.bounds(ctx, c.topic, f.partition)
		if err != nil {
			return 0, err
		}
		return bounds[0].Last, nil
	})
	if err != nil {
		return nil, err
	}
	msgs, err := f.read(res)
	c.client.metrics.setLag(c.topic, c.group, f.partition, max(res.highWatermark-f.next, 0))
	if len(msgs) > 0 {
		return msgs, nil // what follows is met again at the next fetch
	}
	return nil, err
}

// read turns batches into messages. Batches are sent whole, so they may begin
// before the offset asked for. Batches without a record are passed over, since a
// fetch would answer with them for ever; the next message tells of them as of a hole.
// Other batches hold what was asked for, so an answer without it is an error.
func (f *fetcher) read(res fetched) (msgs []Message, err error) {
	now, from := f.consumer.client.clock.Now(), f.at
	for set, size := res.set, 0; size < maxFetchedBytes; {
		b, rest, ok := cutBatch(set)
		if !ok {
			break
		}
		set = rest
		if b.first >= res.highWatermark { // brokers number batches themselves
			b.err = fmt.Errorf("batch begins at offset %d, where the partition ends at %d", b.first, res.highWatermark)
			b.first, b.last = f.at, f.at
		}
		switch {
		case !b.covers(f.at, rest):
		case b.bare() && !f.consumer.opt.EveryOffset:
			f.at = b.behind(f.at, rest, res.highWatermark)
		default:
			n := 0
			if msgs, n, err = f.take(msgs, &b, rest, res.highWatermark, now); err != nil {
				return msgs, err
			}
			size += n
		}
	}
	if len(res.set) > 0 && f.at == from {
		return msgs, fmt.Errorf("broker answers fetch at offset %d with %d bytes, but no record from there on", from, len(res.set))
	}
	return msgs, nil
}

// take hands on the messages of a batch, or one that tells why it can't be read.
// What was damaged on its way here is whole when it is fetched again, so a wrong
// checksum is an error the first time.
func (f *fetcher) take(msgs []Message, b *batch, rest []byte, highWatermark int64, now time.Time) (_ []Message, size int, _ error) {
	before, like := len(msgs), Message{Topic: f.consumer.topic, Partition: f.partition, FetchedAt: now}
	msgs, size, bad := b.messages(msgs, f.at, like, f.consumer.client.config.MaxMessageBytes)
	behind := b.behind(f.at, rest, highWatermark)
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
