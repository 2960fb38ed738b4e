package local

import (
	"slices"
	"time"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/internal/wire"
)

// blindness is the time in which the node could not be observed: from a successful look to the next one, if one in
// between failed.
type blindness struct {
	good time.Time // the last successful look; zero: none yet
	open time.Time // start of the unobserved time; zero: none
	past []interval
}

type interval struct{ from, to time.Time }

func (b *blindness) looked(at time.Time) {
	at = at.Round(0) // by the wall clock, like slots
	if !b.open.IsZero() && b.open.Before(at) {
		b.past = append(b.past, interval{b.open, at})
	}
	b.good, b.open = at, time.Time{}
}

func (b *blindness) failed(at time.Time) {
	if !b.open.IsZero() {
		return
	}
	if b.open = at.Round(0); !b.good.IsZero() && b.good.Before(b.open) {
		b.open = b.good
	}
}

// observe removes the time that was not observed up to at from a batch's observed intervals.
func (b *blindness) observe(slot source.Slot, at time.Time, out *wire.Batch) {
	past := slices.Clone(b.past)
	if !b.open.IsZero() {
		past = append(past, interval{b.open, at})
	}
	var blind []source.Span
	for _, i := range past {
		if one := slot.Span(i.from, i.to); one.From < one.To {
			blind = append(blind, one)
		}
	}
	if len(blind) > 0 {
		for _, seen := range slot.Span(slot.Start, slot.End()).Without(blind) {
			out.Observed = append(out.Observed, &wire.Interval{FromMs: seen.From, ToMs: seen.To})
		}
		out.Unobserved = len(out.Observed) == 0
	}
	b.past = slices.DeleteFunc(b.past, func(i interval) bool { return !i.to.After(slot.End()) })
}
