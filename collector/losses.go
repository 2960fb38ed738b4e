package collector

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/internal/wire"
)

// losses has batches tell of numbers that will never arrive (C4): what the
// spool has lost, and what the broker refused for good. The spool remembers
// both, over restarts, until the record that tells of them is acknowledged; a
// record that is lost itself has told nothing.
type losses struct {
	spool  Spool
	bootMS int64

	mu      sync.Mutex
	told    []carrier
	lost    seqSet // of this boot; kept when the spool forgets
	sending flight
}

// flight is what a produce call has in hand, which the spool may drop meanwhile:
// an outage outlasts any spool.
type flight struct {
	records []spool.Record
	cancel  context.CancelFunc
}

// carrier is a spooled record, and the losses it tells of.
type carrier struct {
	id     uint64
	ranges []spool.DroppedRange
}

// announcement is what the next record is to tell.
type announcement struct {
	ranges []spool.DroppedRange
	gaps   []*wire.SeqGap
	// spoolDropped is how many records of the boot were spooled but will never
	// arrive.
	spoolDropped uint64
}

// next is what has not been told yet. A loss whose numbers the spool doesn't
// know can't be announced; C4 shows that hole.
func (l *losses) next() announcement {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.untell()
	var a announcement
	for _, r := range known {
		if r.BootMS == l.bootMS {
			l.lost.add(r.FromSeq, r.ToSeq)
		}
		for _, c := range l.told {
			r = without(r, c.ranges)
		}
		if r.FromID > r.ToID || len(a.gaps) == wire.MaxGaps { // the next record tells of more
			continue
		}
		a.ranges = append(a.ranges, r)
		if r.BootMS != 0 {
			a.gaps = append(a.gaps, &wire.SeqGap{BootMs: r.BootMS, FromSeq: r.FromSeq, ToSeq: r.ToSeq, Reason: r.Reason})
		}
	}
	a.spoolDropped = l.lost.count()
	return a
}

// spooled says that record id tells of a. Making room for it may have dropped
// what is being sent: that attempt ends, so that what will be told as lost does
// not arrive after all. Where the broker takes it at this very moment it is told
// and arrives, which is no harm: C4 counts it as there.
func (l *losses) spooled(a announcement, id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.spool.Stats().DroppedRanges; l.sending.cancel != nil &&
		len(intact(known, l.sending.records)) < len(l.sending.records) {
		l.sending.cancel()
	}
	if len(a.ranges) > 0 {
		l.told = append(l.told, carrier{id: id, ranges: a.ranges})
	}
}

// send begins an attempt to send those of records that the spool has not dropped,
// by index. The attempt's context ends with ctx, with done, or when the spool
// drops one of them.
func (l *losses) send(ctx context.Context, records []spool.Record) (attempt context.Context, kept []int, done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept = intact(l.spool.Stats().DroppedRanges, records)
	attempt, cancel := context.WithCancel(ctx)
	l.sending = flight{records: pick(records, kept), cancel: cancel}
	return attempt, kept, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.sending = flight{}
		cancel()
	}
}

// intact are the indexes of the records that are not among the lost.
func intact(lost []spool.DroppedRange, records []spool.Record) []int {
	kept := make([]int, 0, len(records))
	for i, r := range records {
		if !covered(lost, r.ID) {
			kept = append(kept, i)
		}
	}
	return kept
}

// acknowledged says that all records up to id have arrived: what they told of
// need not be remembered.
func (l *losses) acknowledged(id uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.untell()
	for len(l.told) > 0 && l.told[0].id <= id {
		ranges := l.told[0].ranges
		if err := l.spool.ForgetDropped(ranges); err != nil {
			return fmt.Errorf("forget announced losses: %w", err)
		}
		l.told = l.told[1:]
	}
	return nil
}

// untell takes back what records told that are lost themselves, and returns
// what the spool knows to be lost.
func (l *losses) untell() []spool.DroppedRange {
	known := l.spool.Stats().DroppedRanges
	l.told = slices.DeleteFunc(l.told, func(c carrier) bool { return covered(known, c.id) })
	return known
}

// without takes off r's front what ranges have told of it: a range grows at its
// end only.
func without(r spool.DroppedRange, ranges []spool.DroppedRange) spool.DroppedRange {
	for _, t := range ranges {
		if t.FromID <= r.FromID && r.FromID <= t.ToID {
			if r.BootMS != 0 {
				r.FromSeq += t.ToID + 1 - r.FromID
			}
			r.FromID = t.ToID + 1
		}
	}
	return r
}

func covered(ranges []spool.DroppedRange, id uint64) bool {
	return slices.ContainsFunc(ranges, func(r spool.DroppedRange) bool { return r.FromID <= id && id <= r.ToID })
}

// seqSet is a set of numbers as disjoint ranges, both ends in it.
type seqSet []seqRange

type seqRange struct{ from, to uint64 }

func (s *seqSet) add(from, to uint64) {
	out := (*s)[:0:0]
	for _, r := range *s {
		if r.to < from || to < r.from {
			out = append(out, r)
			continue
		}
		from, to = min(from, r.from), max(to, r.to)
	}
	*s = append(out, seqRange{from, to})
}

func (s seqSet) count() (n uint64) {
	for _, r := range s {
		n += r.to - r.from + 1
	}
	return n
}
