package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/gputally/gputally/internal/tables"
)

// weekLength is the length of a partition of raw.
const weekLength = 7 * 24 * time.Hour

// States of a week whose raw is being dropped. Values are stored, and only grow.
const (
	weekSealed   = 1 // new batches for it are late
	weekDropping = 2 // in addition, its hours are never recomputed
	weekDropped  = 3
)

// RawWeeks are the weeks whose raw was or will be dropped, by their Monday.
type RawWeeks map[time.Time]tables.RawWeek

// Selector is the part of ClickHouse that reading them needs.
type Selector interface {
	Select(ctx context.Context, dest any, sql string, args ...any) error
}

// ReadRawWeeks reads table raw_weeks.
func ReadRawWeeks(ctx context.Context, s Selector) (RawWeeks, error) {
	var rows []tables.RawWeek
	if err := s.Select(ctx, &rows, selectRawWeeks); err != nil {
		return nil, fmt.Errorf("read weeks without raw: %w", err)
	}
	weeks := make(RawWeeks, len(rows))
	for _, r := range rows {
		r.Week = r.Week.UTC()
		weeks[r.Week] = r
	}
	return weeks, nil
}

// Late reports that a batch for the slot can't be counted any more: the raw of an hour
// to which it belongs was dropped or is about to be (R3).
func (w RawWeeks) Late(slot time.Time) bool {
	return w.touches(slot.UTC().Truncate(time.Hour), weekSealed)
}

// gone reports that the hour can't be recomputed.
func (w RawWeeks) gone(hour time.Time) bool { return w.touches(hour, weekDropping) }

// touches reports that the hour depends on a week in that state: it lies in the week
// or so close to it that a gap may cross the border (R10).
func (w RawWeeks) touches(hour time.Time, state uint8) bool {
	if len(w) == 0 {
		return false
	}
	for _, near := range []time.Duration{-time.Hour, 0, time.Hour} {
		if w[mondayOf(hour.Add(near))].State >= state {
			return true
		}
	}
	return false
}

// Dropped returns the Mondays, as 2006-01-02, of the weeks whose raw may have been
// deleted.
func (w RawWeeks) Dropped() []string {
	out := []string{}
	for monday, week := range w {
		if week.State >= weekDropping {
			out = append(out, monday.Format(time.DateOnly))
		}
	}
	return out
}

// mondayOf is ClickHouse's toMonday.
func mondayOf(t time.Time) time.Time {
	day := t.UTC().Truncate(24 * time.Hour)
	return day.AddDate(0, 0, -(int(day.Weekday())+6)%7)
}

func (l *Ledger) writeWeek(ctx context.Context, w tables.RawWeek) error {
	if err := tables.Insert(ctx, l.deps.Store, "raw_weeks", w); err != nil {
		return fmt.Errorf("record state %d of week %s: %w", w.State, w.Week.Format(time.DateOnly), err)
	}
	return nil
}
