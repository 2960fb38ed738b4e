package month

import (
	"time"

	"github.com/gputally/gputally/internal/fault"
)

// Reach is how much of the ledger a forecast is made from.
const Reach = 70 * 24 * time.Hour

// New is the history for a ledger whose newest full hour ends at end, and for a month: its
// first day, or zero for the one in which end is. Of a month that is over everywhere on earth
// its hours are enough. A month that has not begun is an error.
func New(end, month time.Time) (*History, error) {
	h := &History{From: end.Add(-Reach), End: end, Month: month}
	if month.IsZero() {
		return h, nil
	}
	const zones = 24 * time.Hour // how far months begin apart
	if month.After(end) {
		return nil, fault.New(fault.Invalid, "forecast %s: the month has not begun by the ledger's end, %s",
			month.Format("2006-01"), end.Format(time.RFC3339))
	}
	if over := month.AddDate(0, 1, 0).Add(zones); !over.After(end) {
		h.From, h.End = month.Add(-zones), over
	}
	return h, nil
}
