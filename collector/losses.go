package collector

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/internal/wire"
)

// losses announces in batches the sequence numbers that will never arrive (C4): those that the spool has lost, and
// those that the broker refused permanently. The spool stores both, across restarts, until the record that announces
// them is acknowledged; an announcement in a lost record doesn't count.
type losses struct {
	spool  Spool
	bootMS int64

	mu      sync.Mutex
	told    []carrier
	lost    seqSet // of this boot; kept when the spool forgets
	sending flight
}

// flight is a running produce call, whose records the spool may drop meanwhile, in a long outage.
type flight struct {
	records []spool.Record
	cancel  context.CancelFunc
}

// carrier is a spooled record, and the losses that it announces.
type carrier struct {
	id     uint64
	ranges []spool.DroppedRange
}

// announcement has the losses for the next record.
type announcement struct {
	ranges []spool.DroppedRange
	gaps   []*wire.SeqGap
	// spoolDropped counts the records of the boot that were spooled but will never arrive.
	spoolDropped uint64
}

// next returns the losses not announced yet. A loss whose sequence numbers the spool doesn't know can't be announced;
// C4 reports that gap.
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
		if r.FromID > r.ToID || len(a.gaps) == wire.MaxGaps { // the next record announces the rest
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

// spooled records that record id announces a. Appending it may have dropped records that are being sent: that attempt
// is cancelled, so that records announced as lost don't arrive. If the broker accepts one at that very moment, it is
// announced and arrives, which is harmless: C4 counts it as arrived.
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

// send begins an attempt to send those of records that the spool has not dropped, by index. The attempt's context
// ends with ctx, with done, or when the spool drops one of them.
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

// intact returns the indexes of the records that are not lost.
func intact(lost []spool.DroppedRange, records []spool.Record) []int {
	kept := make([]int, 0, len(records))
	for i, r := range records {
		if !covered(lost, r.ID) {
			kept = append(kept, i)
		}
	}
	return kept
}

// acknowledged is called when all records up to id have arrived: their announcements need no longer be stored.
func (l *losses) acknowledged(id uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.untell()
	for len(l.told) > 0 && l.told[0].id <= id {
		ranges := l.told[0].ranges
		if err := l.spool.ForgetDropped(ranges); err != nil {
			return fmt.Errorf("remove announced losses from the spool: %w", err)
		}
		l.told = l.told[1:]
	}
	return nil
}

// untell withdraws the announcements of records that are lost themselves, and returns the spool's losses.
func (l *losses) untell() []spool.DroppedRange {
	known := l.spool.Stats().DroppedRanges
	l.told = slices.DeleteFunc(l.told, func(c carrier) bool { return covered(known, c.id) })
	return known
}

// without removes from r's front what ranges have announced: a range grows only at its end.
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

// seqSet is a set of numbers as disjoint inclusive ranges.
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
