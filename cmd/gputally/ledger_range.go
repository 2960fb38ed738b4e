package main

import (
	"context"
	"fmt"
	"time"
)

// ledgerRangeSQL has one row: the ledger's first and last hour, and how many
// GPU-hours there are.
const ledgerRangeSQL = `SELECT min(hour), max(hour), count() FROM (SELECT hour FROM usage_hourly FINAL)`

// resolve fills in what --from and --to left out. ok is false when the ledger
// is empty and so has no range.
func (r *timeRange) resolve(ctx context.Context, a *access) (from, to time.Time, ok bool, err error) {
	from, to = r.from.at, r.to.at
	if !from.IsZero() && !to.IsZero() {
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
func ledgerRange(ctx context.Context, a *access) (first, end time.Time, err error) {
	var last time.Time
	var count uint64
	if err := a.db.QueryRow(ctx, ledgerRangeSQL).Scan(&first, &last, &count); err != nil {
		return first, end, fmt.Errorf("read range of the ledger: %w", err)
	}
	if count == 0 {
		return time.Time{}, time.Time{}, nil
	}
	return first.UTC(), last.UTC().Add(time.Hour), nil
}

// String is the range as it was asked for, in words; empty: all there is.
func (r *timeRange) String() string {
	switch {
	case r.from.at.IsZero() && r.to.at.IsZero():
		return ""
	case r.to.at.IsZero():
		return "from " + r.from.String() + " on"
	case r.from.at.IsZero():
		return "before " + r.to.String()
	}
	return "from " + r.from.String() + " to " + r.to.String()
}

// sayNothing tells a reader of an empty table what there is instead.
func (s *session) sayNothing(ctx context.Context, a *access, o output, asked string) error {
	if o != outputTable {
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
	if _, err := fmt.Fprintf(s.stderr, "%s; the ledger %s\n", what, has); err != nil {
		return fmt.Errorf("print answer: %w", err)
	}
	return nil
}
