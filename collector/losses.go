package collector

import (
	"fmt"
	"slices"
	"sync"

	"github.com/gpuledger/gpuledger/collector/spool"
	"github.com/gpuledger/gpuledger/internal/wire"
)

// losses has batches tell of numbers that will never arrive (C4): what the
// spool has lost, and what the broker refused for good. The spool remembers its
// losses until the record that tells of them is acknowledged; a record that is
// lost itself has told nothing.
type losses struct {
	spool  Spool
	bootMS int64

	mu      sync.Mutex
	told    []carrier
	refused []*wire.SeqGap // not yet told
	lost    seqSet         // of this boot, by the spool; kept when the spool forgets
}

// carrier is a spooled record, and the losses it tells of.
type carrier struct {
	id     uint64
	ranges []spool.DroppedRange
}

// announcement is what the next record is to tell.
type announcement struct {
	ranges  []spool.DroppedRange
	refused int // how many of losses.refused
	gaps    []*wire.SeqGap
	// spoolDropped is how many records of the boot the spool has lost, ever.
	spoolDropped uint64
}

// next is what has not been told yet. A loss whose numbers the spool doesn't
// know can't be announced; C4 shows that hole.
func (l *losses) next() announcement {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.spool.Stats().DroppedRanges
	l.told = slices.DeleteFunc(l.told, func(c carrier) bool { return covered(known, c.id) })
	a := announcement{refused: len(l.refused), gaps: slices.Clone(l.refused)}
	for _, r := range known {
		if r.BootMS == l.bootMS {
			l.lost.add(r.FromSeq, r.ToSeq)
		}
		for _, c := range l.told {
			r = without(r, c.ranges)
		}
		if r.FromID > r.ToID {
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

// spooled says that record id tells of a.
func (l *losses) spooled(a announcement, id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = l.refused[a.refused:]
	if len(a.ranges) > 0 {
		l.told = append(l.told, carrier{id: id, ranges: a.ranges})
	}
}

// acknowledged says that all records up to id have arrived: what they told of
// need not be remembered.
func (l *losses) acknowledged(id uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.told) > 0 && l.told[0].id <= id {
		ranges := l.told[0].ranges
		if err := l.spool.ForgetDropped(ranges); err != nil {
			return fmt.Errorf("forget announced losses: %w", err)
		}
		l.told = l.told[1:]
	}
	return nil
}

// refuse has the next batch tell of a number that the broker refused.
func (l *losses) refuse(bootMS int64, seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = append(l.refused, &wire.SeqGap{BootMs: bootMS, FromSeq: seq, ToSeq: seq, Reason: "refused"})
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
