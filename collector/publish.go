package collector

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

// Publish drains the spool into the topic, in order, until ctx ends; then it returns nil. The spool's cursor moves
// only after the broker has acknowledged everything before it, so after a crash some messages are sent twice, but
// none is lost.
func (c *Collector) Publish(ctx context.Context) error {
	for backoff := c.newBackoff(); ; {
		records, err := c.deps.Spool.Next(ctx, c.cfg.PublishBatch)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // ctx ended, as intended
		case errors.Is(err, spool.ErrClosed):
			return fmt.Errorf("publish: %w", err)
		case err != nil:
			c.deps.Log.Error("reading the spool failed, trying again", "error", err)
			if clock.Sleep(ctx, c.deps.Clock, backoff.next()) != nil {
				return nil
			}
			continue
		}
		backoff = c.newBackoff()
		if err := c.publish(ctx, records); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// publish sends records until each is acknowledged, refused permanently or dropped from the spool, or ctx ends, and
// acknowledges them to the spool.
func (c *Collector) publish(ctx context.Context, records []spool.Record) error {
	messages := make([]broker.Message, 0, len(records))
	for _, r := range records {
		m, err := c.message(r.Data)
		if err != nil {
			// Only a faulty build writes such a record: skipping it would leave a gap that isn't announced.
			return fmt.Errorf("publish: record %d of the spool: %w", r.ID, err)
		}
		messages = append(messages, m)
	}
	last := records[len(records)-1].ID
	var lost []spool.Record
	for backoff := c.newBackoff(); ; {
		attempt, kept, done := c.losses.send(ctx, records)
		records, messages = pick(records, kept), pick(messages, kept)
		if len(records) == 0 {
			done()
			break
		}
		failed, refused, err := c.produce(attempt, messages)
		dropped := attempt.Err() != nil
		done()
		for _, r := range pick(records, refused) {
			c.noteRefused(r)
			lost = append(lost, r)
		}
		if len(failed) == 0 {
			break
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // not acknowledged: sent again after the next start
		}
		records, messages = pick(records, failed), pick(messages, failed)
		if dropped {
			continue // some of them are no longer in the spool
		}
		c.metrics.publishFails.Inc()
		c.deps.Log.Error("publishing failed, trying again", "messages", len(failed), "error", err)
		if clock.Sleep(ctx, c.deps.Clock, backoff.next()) != nil {
			return nil // not acknowledged: sent again after the next start
		}
	}
	c.acknowledge(last, lost)
	return nil
}

func pick[T any](all []T, indexes []int) []T {
	out := make([]T, len(indexes))
	for n, i := range indexes {
		out[n] = all[i]
	}
	return out
}

// acknowledge moves the spool's cursor; records that the broker refused permanently become losses of the spool, which
// a later batch announces, if necessary in the next boot. If it fails, as on a full disk, the next acknowledgement
// covers this one, and a restart sends the records again.
func (c *Collector) acknowledge(id uint64, refused []spool.Record) {
	err := c.deps.Spool.Ack(id, refused...)
	if err == nil {
		err = c.losses.acknowledged(id)
	}
	if err != nil {
		c.metrics.ackErrors.Inc()
		c.deps.Log.Error("acknowledging to the spool failed", "record", id, "error", err)
	}
}

// produce splits the messages that were not acknowledged, by index, into those to be retried and those refused
// permanently.
func (c *Collector) produce(ctx context.Context, messages []broker.Message) (failed, refused []int, err error) {
	err = c.deps.Producer.Produce(ctx, messages)
	var each *broker.ProduceError
	known := errors.As(err, &each)
	for i := range messages {
		own := err
		if known {
			own = each.Errs[i]
		}
		switch {
		case own == nil:
			c.metrics.published.Inc()
		case known && errors.Is(own, broker.ErrRefused):
			refused = append(refused, i)
		default:
			failed = append(failed, i)
		}
	}
	return failed, refused, err
}

// noteRefused logs a batch that can't be delivered.
func (c *Collector) noteRefused(r spool.Record) {
	c.metrics.refused.Inc()
	o, _ := Describe(r.Data)
	c.deps.Log.Error("broker refused a batch permanently", "node", o.Node, "boot_ms", o.BootMS, "seq", o.Seq, "bytes",
		len(r.Data))
}

func (c *Collector) message(data []byte) (broker.Message, error) {
	h, err := readHead(data)
	if err != nil {
		return broker.Message{}, err
	}
	return broker.Message{
		Topic: c.cfg.Topic, Key: []byte(h.Node), Value: data,
		Headers: []broker.Header{
			{Key: "cluster", Value: []byte(h.Cluster)},
			{Key: "node", Value: []byte(h.Node)},
			{Key: "collector", Value: []byte(h.Collector)},
			{Key: "boot", Value: strconv.AppendInt(nil, h.BootMs, 10)},
			{Key: "seq", Value: strconv.AppendUint(nil, h.Seq, 10)},
		},
	}, nil
}

// readHead reads a batch's identity.
func readHead(data []byte) (*wire.BatchHead, error) {
	var h wire.BatchHead
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, &h); err != nil {
		return nil, fmt.Errorf("read identity of batch of %d bytes: %w", len(data), err)
	}
	if h.Node == "" {
		return nil, errors.New("read identity of batch: node is empty")
	}
	return &h, nil
}
