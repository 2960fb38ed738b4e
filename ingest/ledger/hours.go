package ledger

import (
	"time"

	"github.com/gputally/gputally/internal/meter"
)

// compareHours derives which hours are dirty: the inputs of an hour are the journal
// from a day before it (for the inventory) to the reach of a gap after it.
func compareHours(journal []journalHour, ledger []ledgerHour, epochs []epoch, closed map[int64]uint64, weeks RawWeeks,
	since time.Time,
) *overview {
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
	// Stored batches with retirements, and raw rows, of the hour and of the 24 hours before it. The hour at backMS before
	// it is none of its inputs: a GPU last listed there has left the inventory when the hour begins.
	var window, rows uint64
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
		// no GPU can have a row for an hour without any row in ledger and raw
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

// closedUntil is the end of the closed hours, counted from the first one on: old
// enough on this service's clock, and computed from the whole journal (R3). A cluster
// without a slot for closeAfter is regarded as ended: nothing more is expected for its
// last hour or the hours after it, which are closed as they get old.
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

// outside returns the hours that don't start in [fromMS, toMS).
func outside(ledger []ledgerHour, fromMS, toMS int64) (hours []time.Time) {
	for _, r := range ledger {
		if ms := r.Hour.UnixMilli(); ms < fromMS || ms >= toMS {
			hours = append(hours, r.Hour.UTC())
		}
	}
	return hours
}
