package usage

import (
	"context"

	"github.com/gputally/gputally/internal/store"
)

// openPoolsSQL: the hours of pools whose capacity nobody declared (R18).
// Parameters: from, to.
const openPoolsSQL = `
SELECT count() AS hours, uniqExact(cluster, gpu) AS pools FROM usage_hourly FINAL
WHERE unknown_capacity = 1 AND present_ms > 0 AND hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')}`

// OpenPools is how much of a range has pools of unknown capacity: their
// unobserved time is not known to be there, nor their free time not to be.
type OpenPools struct{ Pools, Hours uint64 }

// FindOpenPools looks for them in the hours of a query.
func FindOpenPools(ctx context.Context, db DB, q Query) (found OpenPools, err error) {
	args := []any{store.Named("from", q.From.UTC()), store.Named("to", q.To.UTC())}
	fields := func(o *OpenPools) []any { return []any{&o.Hours, &o.Pools} }
	err = store.Each(ctx, db, "pools of unknown capacity", openPoolsSQL, args, fields, func(o *OpenPools) error {
		found = *o
		return nil
	})
	return found, err
}
