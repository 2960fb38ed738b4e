package ledger

import (
	"context"
	"slices"
	"time"

	"github.com/gputally/gputally/internal/meter"
)

type cluster struct {
	Name   string `ch:"cluster"`
	SlotMS uint32 `ch:"slot_ms"`
	// ahead reports that the cluster's journal reaches beyond this service's clock,
	// and slots from the watermark on are left out.
	ahead bool
}

// journalHour sums up the journal of one hour.
type journalHour struct {
	Hour   time.Time `ch:"hour"`
	Stored uint64    `ch:"stored"`
	Head   uint64    `ch:"head"` // of them, close enough to the hour before to be part of a gap there
	Rows   uint64    `ch:"rows"` // of raw, according to the journal
	EndMS  int64     `ch:"end_ms"`
	// Partition of the journal that the hour lies in.
	Partition string `ch:"partition"`
}

// ledgerHour sums up the ledger's rows of one hour.
type ledgerHour struct {
	Hour    time.Time `ch:"hour"`
	Inputs  uint64    `ch:"inputs"`
	UntilMS uint32    `ch:"until_ms"`
	Epoch   uint32    `ch:"epoch"`
	// Rows is how many rows exist, Published how many there were when the hour was
	// published; rows are never deleted. 0: published before they were counted.
	Rows      uint64 `ch:"rows"`
	Published uint32 `ch:"published"`
	// Partition of the ledger that the hour lies in.
	Partition string `ch:"partition"`
}

// overview is the state of a cluster's hours: what each was computed from, and which
// are dirty.
type overview struct {
	watermarkMS int64
	hours       []hourState
	ahead       bool        // the journal reaches beyond this service's clock
	orphans     []time.Time // hours of the ledger beyond the end of the journal, ascending
}

type hourState struct {
	start   time.Time
	inputs  uint64
	untilMS uint32
	epoch   uint32 // the epoch under which the hour must be computed
	dirty   bool
	// gone reports that raw the hour depends on was dropped: it is never recomputed,
	// and counts as stale where it would otherwise be dirty.
	gone, stale bool
	// lacking is the number of its rows that were deleted from the ledger.
	lacking uint64
	// rows of raw and of the journal that must be read to compute the hour.
	rows, batches uint64
	// published reports that the ledger has rows of the hour.
	published bool
}

// version is the smallest version of the hour's rows.
func (h ledgerHour) version() uint64 {
	return hourState{epoch: h.Epoch, inputs: h.Inputs, untilMS: h.UntilMS}.version()
}

// version is the version that a row of the hour must carry. It only grows: the row of
// an outdated worker loses (R5).
func (h hourState) version() uint64 {
	return uint64(h.epoch)<<44 | h.inputs<<12 | uint64(h.untilMS/1000)
}

// backMS is how far before its start the journal is an input of an hour: when a GPU
// leaves the inventory, its last time was still counted then.
const backMS = meter.RetireAfterMS + meter.HourMS

// everything is an instant before any hour. It isn't the Unix epoch, because
// ClickHouse doesn't parse a parameter of fewer than five digits as a DateTime.
var everything = time.Date(1971, 1, 1, 0, 0, 0, 0, time.UTC)

// overview derives the state of the hours from since on.
func (l *Ledger) overview(ctx context.Context, c cluster, epochs []epoch, since time.Time) (*overview, error) {
	journal, err := l.journalHours(ctx, c, since)
	if err != nil {
		return nil, err
	}
	ledger, err := l.ledgerHours(ctx, c, since)
	if err != nil {
		return nil, err
	}
	weeks, err := ReadRawWeeks(ctx, l.deps.Store)
	if err != nil {
		return nil, err
	}
	closed, err := l.readRetirements(ctx, c)
	if err != nil {
		return nil, err
	}
	past, ahead := l.past(c, journal)
	o := compareHours(past, ledger, epochs, closed.perHour(), weeks, since)
	if o.ahead = ahead; ahead {
		end := journal[len(journal)-1].Hour
		o.orphans = slices.DeleteFunc(o.orphans, func(hour time.Time) bool {
			return hour.UnixMilli() >= o.watermarkMS && !hour.After(end)
		})
	}
	return o, nil
}

// maxEarlyMS is how far the watermark may be ahead of this service's clock, because
// clocks of collectors differ (R11). It is the default of ingest.max_early, which
// decides what live batches are accepted; the ledger's figure isn't configured.
const maxEarlyMS = 120_000

// past cuts the journal at this service's clock if it reaches more than maxEarlyMS
// ahead, as simulated batches may. The watermark is the end of the journal's last slot
// if that is at most maxEarlyMS ahead; otherwise the end of the last slot that is over,
// but not one so close to the start of an hour that a gap could reach into the hour
// before, which takes all or nothing of that time.
func (l *Ledger) past(c cluster, journal []journalHour) (past []journalHour, ahead bool) {
	now := l.deps.Clock.Now().UnixMilli()
	if len(journal) == 0 || journal[len(journal)-1].EndMS <= now+maxEarlyMS {
		return journal, false
	}
	now -= now % int64(max(c.SlotMS, 1))
	if since := now % meter.HourMS; since < meter.GapMaxMS {
		now -= since
	}
	for _, j := range journal {
		if j.Hour.UnixMilli() < now {
			j.EndMS = min(j.EndMS, now)
			past = append(past, j)
		}
	}
	return past, true
}
