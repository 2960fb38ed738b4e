package source

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

// Slot is the wall-clock interval [Start, Start+Length). Length divides the
// hour and Start is a multiple of it.
type Slot struct {
	Start  time.Time
	Length time.Duration
}

// End is the first instant after the slot.
func (s Slot) End() time.Time { return s.Start.Add(s.Length) }

// Next is the following slot.
func (s Slot) Next() Slot { return Slot{Start: s.End(), Length: s.Length} }

// AtMS converts an instant to ms of the slot. An earlier instant becomes the slot's start, a later one, from the time
// of reading, its last ms.
func (s Slot) AtMS(at time.Time) int64 {
	return max(0, min(at.Sub(s.Start).Milliseconds(), s.Length.Milliseconds()-1))
}

// Span is [From, To) in ms of a slot.
type Span struct{ From, To int64 }

// Span is the intersection of [from, to) with the slot; a zero to has no end. It is empty if To is not after From.
func (s Slot) Span(from, to time.Time) Span {
	length := s.Length.Milliseconds()
	ms := func(t time.Time) int64 { return max(0, min(t.Sub(s.Start).Milliseconds(), length)) }
	if to.IsZero() {
		return Span{ms(from), length}
	}
	return Span{ms(from), ms(to)}
}

// Without returns the parts of the span that others don't cover, ascending.
func (s Span) Without(others []Span) (left []Span) {
	others = slices.SortedFunc(slices.Values(others), func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	for _, o := range others {
		if o.From > s.From && s.From < s.To {
			left = append(left, Span{s.From, min(o.From, s.To)})
		}
		s.From = max(s.From, o.To)
	}
	if s.From < s.To {
		left = append(left, s)
	}
	return left
}

// At is the slot of the given length that contains t.
func At(t time.Time, length time.Duration) Slot {
	ms, n := t.UnixMilli(), length.Milliseconds()
	return Slot{Start: time.UnixMilli(ms - ((ms%n)+n)%n).UTC(), Length: length}
}

// Batch returns a live batch of a node in the slot with complete enumeration and known owners, without GPUs.
func (s Slot) Batch(cluster, node string) *wire.Batch {
	return &wire.Batch{
		Format: wire.Format, Cluster: cluster, Node: node,
		SlotStartMs: s.Start.UnixMilli(), SlotMs: s.Length.Milliseconds(),
		Attribution: wire.Attribution_ATTRIBUTION_OK,
		Enumeration: wire.Enumeration_ENUMERATION_COMPLETE,
		Origin:      wire.Origin_ORIGIN_LIVE,
	}
}

// DefaultFatalXIDs mark a GPU as unhealthy: errors that require a reset and that a user's program can't cause (R9).
var DefaultFatalXIDs = meter.FatalXIDs()

// Source reads what happened in one slot.
//
// The batches have cluster, node, slot and facts; the slot loop sets the identity: collector, boot_ms, seq, counters,
// predecessor and gaps. There is one batch per node that was read. A node that could not be read has no batch but an
// error; the returned error joins these: batches with an error are a partial success, and both are used.
//
// Read is called with slots in ascending order and never concurrently. It returns by the time ctx ends. The caller
// may modify the batches.
type Source interface {
	Read(ctx context.Context, slot Slot) ([]*wire.Batch, error)
}
