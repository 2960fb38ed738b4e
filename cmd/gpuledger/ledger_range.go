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
	var first, last time.Time
	var count uint64
	if err := a.db.QueryRow(ctx, ledgerRangeSQL).Scan(&first, &last, &count); err != nil {
		return from, to, false, fmt.Errorf("read range of the ledger: %w", err)
	}
	if count == 0 {
		return from, to, false, nil
	}
	if from.IsZero() {
		from = first.UTC()
	}
	if to.IsZero() {
		to = last.UTC().Add(time.Hour)
	}
	return from, to, from.Before(to), nil
}
