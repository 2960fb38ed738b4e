package collector

import (
	"context"
	"fmt"
	"time"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/internal/wire"
)

// Backfill reads every slot in [from, to) as fast as it can append them to the spool, a group of slots per fsync, and
// returns when all are spooled. Slots that an earlier run has spooled count as done. When the spool is full or the
// disk fails it waits, so nothing is dropped. progress, which may be nil, is called at the start and after each group
// with the number of slots done and in total. Backfill must not run at the same time as Live.
func (c *Collector) Backfill(ctx context.Context, from, to time.Time, progress func(done, total int)) error {
	slot := source.At(from, c.cfg.Slot)
	if !slot.Start.Equal(from) || to.Before(from) || to.Sub(from)%c.cfg.Slot != 0 {
		return fmt.Errorf("backfill from %s to %s: must be ascending multiples of the slot of %s", from, to, c.cfg.Slot)
	}
	total := int(to.Sub(from) / c.cfg.Slot)
	// The newest slot may have been spooled for some nodes only.
	if last := c.lastSlot(); last.After(from) {
		if last.After(to) {
			last = to
		}
		slot = source.At(last, c.cfg.Slot)
	}
	report := func() {
		if progress != nil {
			progress(int(slot.Start.Sub(from)/c.cfg.Slot), total)
		}
	}
	report()
	for slot.Start.Before(to) {
		group := make([]*wire.Batch, 0, c.cfg.BackfillGroup)
		for n := 0; n < c.cfg.BackfillGroup && slot.Start.Before(to); n++ {
			batches := c.read(ctx, slot)
			if ctx.Err() != nil {
				c.drop(len(group), droppedStopped, ctx.Err())
				return fmt.Errorf("backfill up to %s: %w", slot.Start, ctx.Err())
			}
			batches = c.unseen(batches)
			c.cut(len(batches))
			group = append(group, c.valid(batches)...)
			slot = slot.Next()
		}
		if err := c.spoolBy(ctx, group, time.Time{}); err != nil {
			return fmt.Errorf("backfill up to %s: %w", slot.Start, err)
		}
		report()
	}
	return nil
}
