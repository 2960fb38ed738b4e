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
	// ahead says that its journal reaches beyond the service's clock, and slots
	// from the watermark on are left out.
	ahead bool
}

// journalHour is what the journal holds of one hour.
type journalHour struct {
	Hour   time.Time `ch:"hour"`
	Stored uint64    `ch:"stored"`
	Head   uint64    `ch:"head"` // of them, within the gap's reach of the hour before
	Rows   uint64    `ch:"rows"` // of raw, promised
	EndMS  int64     `ch:"end_ms"`
	// Partition is the journal's that the hour lies in.
	Partition string `ch:"partition"`
}

// ledgerHour is what the ledger holds of one hour.
type ledgerHour struct {
	Hour    time.Time `ch:"hour"`
	Inputs  uint64    `ch:"inputs"`
	UntilMS uint32    `ch:"until_ms"`
	Epoch   uint32    `ch:"epoch"`
	// Rows are those that are there, Published as many as were when the hour was
	// published: none of them ever goes. 0: from before they were counted.
	Rows      uint64 `ch:"rows"`
	Published uint32 `ch:"published"`
	// Partition is the ledger's that the hour lies in.
	Partition string `ch:"partition"`
}

// overview says what each hour of the cluster rests on, and which are dirty.
type overview struct {
	watermarkMS int64
	hours       []hourState
	ahead       bool        // the journal reaches beyond the service's clock
	orphans     []time.Time // hours of the ledger that the journal doesn't reach, ascending
}

type hourState struct {
	start   time.Time
	inputs  uint64
	untilMS uint32
	epoch   uint32 // the one that the hour must be computed under
	dirty   bool
	// gone says that raw it rests on was dropped: it is never recomputed, and
	// stale where it would otherwise be dirty.
	gone, stale bool
	// lacking is how many of its rows somebody took from the ledger.
	lacking uint64
	// rows of raw and of the journal: what computing the hour takes to read.
	rows, batches uint64
	// published says that the ledger holds rows of the hour.
	published bool
}

// version is what a row of the hour must carry, by the weakest of them.
func (h ledgerHour) version() uint64 {
	return hourState{epoch: h.Epoch, inputs: h.Inputs, untilMS: h.UntilMS}.version()
}

// version only grows: a stale worker's row loses (R5).
func (h hourState) version() uint64 {
	return uint64(h.epoch)<<44 | h.inputs<<12 | uint64(h.untilMS/1000)
}

// backMS is how far back the journal reaches that an hour rests on: the hour in
// which a GPU retires still counts the one it was last seen in.
const backMS = meter.RetireAfterMS + meter.HourMS

// everything is before any hour. ClickHouse refuses to read a parameter of
// fewer than five digits as a DateTime, so it isn't the Unix epoch itself.
var everything = time.Date(1971, 1, 1, 0, 0, 0, 0, time.UTC)

// overview looks at the hours from since on.
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
	closed, err := l.readClosings(ctx, c)
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

// earlyMS is how far live collectors' clocks may be ahead (R11).
const earlyMS = 120_000

// past is the journal up to the service's clock, where it reaches further ahead
// than clocks differ, as what is simulated may: no slot counts before it is over.
// The watermark then stands at the last slot that is over, but not within the
// gap's reach of an hour's start: the hour before takes all of that or nothing.
func (l *Ledger) past(c cluster, journal []journalHour) (past []journalHour, ahead bool) {
	now := l.deps.Clock.Now().UnixMilli()
	if len(journal) == 0 || journal[len(journal)-1].EndMS <= now+earlyMS {
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

// compareHours derives dirtiness: an hour rests on the journal from a day
// before it (the inventory) to the gap's reach after it.
func compareHours(journal []journalHour, ledger []ledgerHour, epochs []epoch, closed map[int64]uint64, weeks RawWeeks,
	since time.Time) *overview {
	o := &overview{}
	if len(journal) == 0 {
		o.orphans = outside(ledger, 0, 0)
		return o
	}
	byHour := make(map[int64]journalHour, len(journal))
	for _, j := range journal {
		byHour[j.Hour.UnixMilli()] = j
		o.watermarkMS = max(o.watermarkMS, j.EndMS)
	}
	have := make(map[int64]ledgerHour, len(ledger))
	for _, r := range ledger {
		have[r.Hour.UnixMilli()] = r
	}
	first := journal[0].Hour.UnixMilli()
	if since.After(everything) {
		first = min(first, since.UnixMilli()-backMS)
	}
	inputs := func(hour int64) uint64 {
		if hour < first {
			return 0
		}
		return byHour[hour].Stored + closed[hour]
	}
	var window, rows uint64 // stored batches with closings, and rows of raw, of the hours from backMS before it to its own
	for start := first; start < o.watermarkMS; start += meter.HourMS {
		window += inputs(start) - inputs(start-backMS)
		rows += byHour[start].Rows - byHour[start-backMS].Rows
		if start < since.UnixMilli() {
			continue
		}
		state := hourState{
			start: time.UnixMilli(start).UTC(), inputs: window + byHour[start+meter.HourMS].Head,
			untilMS: uint32(min(o.watermarkMS-start, meter.HourMS)), epoch: epochAt(epochs, time.UnixMilli(start)),
			rows: byHour[start].Rows, batches: byHour[start].Stored,
		}
		old, ok := have[start]
		state.published = ok
		// Without a row in the ledger or in raw there is no GPU that could have one.
		state.lacking = max(uint64(old.Published), old.Rows) - old.Rows
		state.dirty = (ok || rows > 0) && (old.version() < state.version() || state.lacking > 0)
		if state.gone = weeks.gone(state.start); state.gone {
			state.dirty, state.stale = false, state.dirty
		}
		o.hours = append(o.hours, state)
	}
	o.orphans = outside(ledger, first, o.watermarkMS)
	return o
}

// closedUntil is the end of the hours from the first one on that are closed:
// old enough on the service's clock, and covering the whole journal (R3). A
// cluster without a slot for closeAfter is taken for ended: nothing more comes
// for its last hour, nor for those after it, which are closed as they get old.
func (o *overview) closedUntil(now time.Time, closeAfter time.Duration) time.Time {
	oldEnough := now.Add(-closeAfter)
	ended := o.watermarkMS < oldEnough.UnixMilli()
	var end time.Time
	for _, h := range o.hours {
		next := h.start.Add(time.Hour)
		covered := !h.dirty && h.lacking == 0 && (h.untilMS == meter.HourMS || ended)
		if !covered || oldEnough.Before(next) {
			return end
		}
		end = next
	}
	if ended && len(o.hours) > 0 {
		return oldEnough.UTC().Truncate(time.Hour)
	}
	return end
}

// outside are the hours that don't start in [fromMS, toMS).
func outside(ledger []ledgerHour, fromMS, toMS int64) (hours []time.Time) {
	for _, r := range ledger {
		if ms := r.Hour.UnixMilli(); ms < fromMS || ms >= toMS {
			hours = append(hours, r.Hour.UTC())
		}
	}
	return hours
}
