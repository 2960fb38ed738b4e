package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/ch-go/proto"
)

// weekLength is that of a partition of raw.
const weekLength = 7 * 24 * time.Hour

// States of a week whose raw goes. Values are stored, and only grow.
const (
	weekSealed   = 1 // batches for it are late
	weekDropping = 2 // and its hours are never recomputed
	weekDropped  = 3
)

// rawWeek is a week whose raw goes, or is gone.
type rawWeek struct {
	Week       time.Time `ch:"week"`
	State      uint8     `ch:"state"`
	SealedAt   time.Time `ch:"sealed_at"`
	DroppedAt  time.Time `ch:"dropped_at"`
	GPUHours   uint64    `ch:"gpu_hours"`
	HoldRows   uint64    `ch:"hold_rows"`
	SampleRows uint64    `ch:"sample_rows"`
	SHA256     string    `ch:"usage_sha256"`
}

// RawWeeks are the weeks whose raw goes or is gone, by their Monday.
type RawWeeks map[time.Time]rawWeek

// Selector is what reading them needs of ClickHouse.
type Selector interface {
	Select(ctx context.Context, dest any, sql string, args ...any) error
}

// ReadRawWeeks reads table raw_weeks.
func ReadRawWeeks(ctx context.Context, s Selector) (RawWeeks, error) {
	var rows []rawWeek
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

// Late says that a batch for the slot can't be counted any more: an hour that
// it belongs to rests on raw that is gone or about to go (R3).
func (w RawWeeks) Late(slot time.Time) bool {
	return w.touches(slot.UTC().Truncate(time.Hour), weekSealed)
}

// gone says that the hour can't be recomputed.
func (w RawWeeks) gone(hour time.Time) bool { return w.touches(hour, weekDropping) }

// touches says that the hour rests on a week of that state: it lies in it or
// next to it, where the gap rule looks over the border (R10).
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

// Dropped are the Mondays, as 2006-01-02, of the weeks whose raw is no longer
// promised to be there.
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

func (l *Ledger) writeWeek(ctx context.Context, w rawWeek) error {
	week, state, sha := new(proto.ColDate), new(proto.ColUInt8), new(proto.ColStr)
	ms := func(t time.Time) *proto.ColDateTime64 {
		c := new(proto.ColDateTime64).WithPrecision(proto.PrecisionMilli)
		c.Append(t.UTC())
		return c
	}
	count := func(n uint64) *proto.ColUInt64 { return &proto.ColUInt64{n} }
	week.Append(w.Week)
	state.Append(w.State)
	sha.Append(w.SHA256)
	if err := l.deps.Store.Insert(ctx, "raw_weeks", proto.Input{
		{Name: "week", Data: week},
		{Name: "state", Data: state},
		{Name: "sealed_at", Data: ms(w.SealedAt)},
		{Name: "dropped_at", Data: ms(w.DroppedAt)},
		{Name: "gpu_hours", Data: count(w.GPUHours)},
		{Name: "hold_rows", Data: count(w.HoldRows)},
		{Name: "sample_rows", Data: count(w.SampleRows)},
		{Name: "usage_sha256", Data: sha},
	}); err != nil {
		return fmt.Errorf("record state %d of week %s: %w", w.State, w.Week.Format(time.DateOnly), err)
	}
	return nil
}
