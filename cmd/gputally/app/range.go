package app

import (
	"context"
	"fmt"
	"time"

	"github.com/gputally/gputally/internal/cli"
)

// ledgerRangeSQL has one row: the ledger's first and last hour, and how many
// GPU-hours there are.
const ledgerRangeSQL = `SELECT min(hour), max(hour), count() FROM (SELECT hour FROM usage_hourly FINAL)`

// Resolve fills in what --from and --to left out. ok is false when the ledger
// is empty and so has no range.
func Resolve(ctx context.Context, r *cli.TimeRange, a *Access) (from, to time.Time, ok bool, err error) {
	from, to = r.From.At, r.To.At
	if r.Closed() {
		return from, to, true, nil
	}
	first, end, err := ledgerRange(ctx, a)
	if err != nil || first.IsZero() {
		return from, to, false, err
	}
	if from.IsZero() {
		from = first
	}
	if to.IsZero() {
		to = end
	}
	return from, to, from.Before(to), nil
}

// ledgerRange is the ledger's first hour and the end of its last; zero times
// of an empty one.
func ledgerRange(ctx context.Context, a *Access) (first, end time.Time, err error) {
	var last time.Time
	var count uint64
	if err := a.DB.QueryRow(ctx, ledgerRangeSQL).Scan(&first, &last, &count); err != nil {
		return first, end, fmt.Errorf("read range of the ledger: %w", err)
	}
	if count == 0 {
		return time.Time{}, time.Time{}, nil
	}
	return first.UTC(), last.UTC().Add(time.Hour), nil
}

// SayNothing prints, below an empty table, which hours the ledger has.
func SayNothing(ctx context.Context, s *cli.Session, a *Access, asked string) error {
	if s.Format != cli.AsTable {
		return nil
	}
	first, end, err := ledgerRange(ctx, a)
	if err != nil {
		return err
	}
	what, has := "nothing found", "is empty"
	if asked != "" {
		what = "nothing " + asked
	}
	if !first.IsZero() {
		has = "has " + first.Format(time.RFC3339) + " to " + end.Format(time.RFC3339)
	}
	s.Sayf("%s; the ledger %s\n", what, has)
	return nil
}

// LastMonth is the last full calendar month before now, UTC.
func LastMonth(now time.Time) (from, to time.Time) {
	now = now.UTC()
	to = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	return to.AddDate(0, -1, 0), to
}
