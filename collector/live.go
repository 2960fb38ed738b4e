package collector

import (
	"context"
	"fmt"
	"time"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

// Live reads the source once per slot, at the slot's end, aligned to the wall clock, until ctx ends; then it returns
// nil. The slot in which it starts is observed from then on. A reading more than a slot late is skipped, since
// nothing watched the time that it would represent.
func (c *Collector) Live(ctx context.Context) error {
	w := newWatch(c.deps.Clock)
	if watcher, ok := c.deps.Source.(source.Watcher); ok {
		w.look = watcher.Watch
	}
	p := next(w.mark, c.lastSlot(), c.cfg.Slot)
	c.warnWait(p)
	for {
		cut, step, err := w.until(ctx, p.slot.End())
		if err != nil {
			return nil //nolint:nilerr // ctx ended, as intended
		}
		switch {
		case !cut.IsZero():
			c.metrics.wallSteps.Inc()
			c.deps.Log.Warn("wall clock stepped: slot split", "step", step, "slot", p.slot.Start, "now", w.mark)
			p.to = cut
			c.emit(ctx, p)
			p = next(c.deps.Clock.Now(), c.lastSlot(), c.cfg.Slot)
			c.warnWait(p)
		case wallSub(w.mark, p.slot.End()) > c.cfg.Slot:
			c.miss(int(wallSub(w.mark, p.slot.Start)/c.cfg.Slot), p.slot.Start, w.mark)
			p = next(w.mark, c.lastSlot(), c.cfg.Slot)
		default:
			c.emit(ctx, p)
			p = piece{slot: p.slot.Next(), from: p.slot.End(), to: p.slot.Next().End()}
		}
	}
}

// Follow is Live for a source that is a pure function of the slot, such as the simulator, which needs no watching. It
// reads every slot from `from` on, whole: past slots at once, like Backfill, and each later one at its end, until ctx
// ends; then it returns nil. So neither a late start nor a restart nor a pause leaves a partial or missing slot. It
// is an error if `from` isn't the start of a slot. Follow must not run at the same time as Live or Backfill.
func (c *Collector) Follow(ctx context.Context, from time.Time) error {
	for {
		now := c.deps.Clock.Now()
		due := source.At(now, c.cfg.Slot).Start
		if from.Before(due) {
			if err := c.Backfill(ctx, from, due, nil); ctx.Err() != nil {
				return nil
			} else if err != nil {
				return err
			}
			from = due
			continue
		}
		wait := min(wallSub(from.Add(c.cfg.Slot), now), look)
		if clock.Sleep(ctx, c.deps.Clock, wait) != nil {
			return nil
		}
	}
}

// miss counts the slots that ended while the collector was delayed by a disk or a source as dropped: for each slot as
// many batches as the last one had.
func (c *Collector) miss(slots int, from, now time.Time) {
	c.metrics.missed.Add(float64(slots))
	c.deps.Log.Warn("slots missed: the collector was delayed", "slots", slots, "from", from, "now", now)
	c.cut(slots * c.perSlot)
	c.drop(slots*c.perSlot, droppedMissed, fmt.Errorf("delayed from %s to %s", from, now))
}

// warnWait logs that emitting waits until the wall clock passes the slots emitted before.
func (c *Collector) warnWait(p piece) {
	if ahead := wallSub(p.slot.Start, c.deps.Clock.Now()); ahead > 0 {
		c.deps.Log.Warn("wall clock stepped back: waiting until it passes the last emitted slot", "slot", p.slot.Start,
			"wait", ahead)
	}
}

// emit reads a piece and spools its batches.
func (c *Collector) emit(ctx context.Context, p piece) {
	fromMS, toMS := p.observed()
	if fromMS >= toMS {
		return
	}
	batches := c.read(ctx, p.slot)
	if !p.whole() {
		for _, b := range batches {
			clip(b, fromMS, toMS)
		}
	}
	batches = c.unseen(batches)
	if c.deps.Attributor != nil {
		c.deps.Attributor.Attribute(p.slot, batches)
	}
	c.cut(len(batches))
	c.perSlot = len(batches)
	batches = c.valid(batches)
	if c.deps.Observer != nil {
		c.deps.Observer.Observe(batches)
	}
	// The next slot is due at its end; until then appending can be retried.
	_ = c.spoolBy(ctx, batches, p.slot.Next().End()) // batches that aren't spooled are counted as dropped
	c.note(p.slot.Start)
}

// clip removes everything outside [fromMS, toMS) from a batch's observed intervals.
func clip(b *wire.Batch, fromMS, toMS int64) {
	if b.Unobserved {
		return
	}
	var out []*wire.Interval
	for _, o := range wire.Observed(b) {
		if lo, hi := max(o.FromMs, fromMS), min(o.ToMs, toMS); lo < hi {
			out = append(out, &wire.Interval{FromMs: lo, ToMs: hi})
		}
	}
	b.Observed, b.Unobserved = out, len(out) == 0
}
