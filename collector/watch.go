package collector

import (
	"context"
	"time"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/internal/clock"
)

const (
	// maxStep is how far the wall clock may differ from elapsed time before it counts as a step and splits the slot
	// (R11).
	maxStep = 500 * time.Millisecond
	// look is the interval at which the clocks are compared, and at which a source.Watcher checks its devices between
	// readings.
	look = time.Second
)

// watch follows the wall clock through slots.
type watch struct {
	clock clock.Clock
	mark  time.Time // when the clocks were last compared
	look  func()    // source.Watcher's; may be nil
}

func newWatch(c clock.Clock) *watch { return &watch{clock: c, mark: c.Now()} }

// stepped compares the wall clock with elapsed time since the last comparison.
func (w *watch) stepped() (step time.Duration, now time.Time) {
	elapsed := w.clock.Since(w.mark)
	now = w.clock.Now()
	step = wallSub(now, w.mark) - elapsed
	w.mark = now
	return step, now
}

// until waits for the wall clock to reach end. If the wall clock steps, it returns at once with the last instant
// before the step.
func (w *watch) until(ctx context.Context, end time.Time) (cut time.Time, step time.Duration, err error) {
	for {
		before := w.mark
		step, now := w.stepped()
		if step > maxStep || step < -maxStep {
			return before, step, nil
		}
		wait := min(wallSub(end, now), look)
		if wait <= 0 {
			return time.Time{}, 0, nil
		}
		if err := clock.Sleep(ctx, w.clock, wait); err != nil {
			return time.Time{}, 0, err
		}
		if w.look != nil && wait == look {
			w.look()
		}
	}
}

// wallSub is a-b by the wall clock only, without Go's monotonic readings.
func wallSub(a, b time.Time) time.Duration { return a.Round(0).Sub(b.Round(0)) }

// piece is a slot, or the part of one that was observed.
type piece struct {
	slot     source.Slot
	from, to time.Time // the observed part
}

// whole returns whether the whole slot was observed.
func (p piece) whole() bool {
	return !p.from.After(p.slot.Start) && !p.to.Before(p.slot.End())
}

// observed is the observed part in ms of the slot.
func (p piece) observed() (fromMS, toMS int64) {
	length := p.slot.Length.Milliseconds()
	fromMS = max(0, wallSub(p.from, p.slot.Start).Milliseconds())
	toMS = min(length, wallSub(p.to, p.slot.Start).Milliseconds())
	return fromMS, toMS
}

// next is the piece that starts at now, or, if slots up to last were already emitted, the first slot after last.
func next(now time.Time, last time.Time, length time.Duration) piece {
	slot := source.At(now, length)
	if !last.IsZero() && !slot.Start.After(last) {
		slot = source.At(last, length).Next()
	}
	from := now
	if from.Before(slot.Start) {
		from = slot.Start
	}
	return piece{slot: slot, from: from, to: slot.End()}
}
