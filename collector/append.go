package collector

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

// Spool stores encoded batches until they are published; *spool.Spool implements it. Open it with Describe, so that
// it knows where earlier boots ended.
type Spool interface {
	Append(ctx context.Context, records [][]byte) (first uint64, err error)
	Next(ctx context.Context, most int) ([]spool.Record, error)
	Ack(id uint64, refused ...spool.Record) error
	Meta() spool.Meta
	Stats() spool.Stats
	// ForgetDropped removes ranges from Stats once they have been announced.
	ForgetDropped(announced []spool.DroppedRange) error
}

// Describe reads the identity of an encoded batch, for spool.Options.
func Describe(data []byte) (spool.Origin, bool) {
	h, err := readHead(data)
	if err != nil {
		return spool.Origin{}, false
	}
	return spool.Origin{BootMS: h.BootMs, Seq: h.Seq, Node: h.Node, SlotStartMS: h.SlotStartMs}, true
}

// spool appends batches with one fsync and assigns the next numbers. If it fails nothing has changed, and it may be
// called again with the same batches.
func (c *Collector) spool(ctx context.Context, batches []*wire.Batch) error {
	if len(batches) == 0 {
		return nil
	}
	tell := c.losses.next()
	stamped, err := c.identity.stamp(batches, tell)
	if err != nil {
		return err
	}
	records := make([][]byte, len(stamped))
	for i, s := range stamped {
		records[i] = s.data
	}
	first, err := c.deps.Spool.Append(ctx, records)
	if err != nil {
		c.metrics.appendErrors.Inc()
		return fmt.Errorf("append %d batches to spool: %w", len(records), err)
	}
	c.identity.commit(len(stamped))
	if committer, ok := c.deps.Source.(source.Committer); ok {
		committer.Commit()
	}
	c.losses.spooled(tell, first)
	c.noteAppended(stamped)
	return nil
}

// spoolBy retries until the batches are appended. It drops them (C1) when ctx ends or the deadline passes, since a
// live collector must not fall behind. The zero deadline never passes.
func (c *Collector) spoolBy(ctx context.Context, batches []*wire.Batch, deadline time.Time) error {
	for backoff := c.newBackoff(); ; {
		err := c.spool(ctx, batches)
		if err == nil {
			return nil
		}
		wait := backoff.next()
		if !deadline.IsZero() {
			wait = min(wait, wallSub(deadline, c.deps.Clock.Now()))
		}
		if ctx.Err() == nil && wait > 0 {
			c.deps.Log.Error("appending to the spool failed, trying again", "error", err)
			if clock.Sleep(ctx, c.deps.Clock, wait) == nil {
				continue
			}
		}
		reason := droppedSpool
		if ctx.Err() != nil {
			reason = droppedStopped
		}
		c.drop(len(batches), reason, err)
		return cmp.Or(ctx.Err(), err)
	}
}

func (c *Collector) noteAppended(stamped []stamped) {
	c.metrics.spooled.Add(float64(len(stamped)))
	for _, s := range stamped {
		c.slots[s.node] = max(c.slots[s.node], s.slotStartMS)
		c.lastMS = max(c.lastMS, s.slotStartMS)
	}
	c.metrics.lastSlot.Set(float64(c.lastMS) / 1000)
}

// backoff is a pause that doubles from retry_min to retry_max.
type backoff struct{ wait, limit time.Duration }

func (c *Collector) newBackoff() *backoff {
	return &backoff{wait: c.cfg.RetryMin, limit: c.cfg.RetryMax}
}

func (b *backoff) next() time.Duration {
	wait := b.wait
	b.wait = min(2*wait, b.limit)
	return wait
}
