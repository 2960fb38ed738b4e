package usage

import (
	"context"

	"github.com/gputally/gputally/internal/store"
)

// openPoolsSQL counts pools without a declared capacity (R18), and their hours. Parameters: from, to.
const openPoolsSQL = `
SELECT count() AS hours, uniqExact(cluster, gpu) AS pools FROM usage_hourly FINAL
WHERE unknown_capacity = 1 AND present_ms > 0 AND hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')}`

// OpenPools counts pools of unknown capacity in a range and their hours: their unobserved and free time is unknown.
type OpenPools struct{ Pools, Hours uint64 }

// FindOpenPools counts them in the hours of a query.
func FindOpenPools(ctx context.Context, db DB, q Query) (found OpenPools, err error) {
	args := []any{store.Named("from", q.From.UTC()), store.Named("to", q.To.UTC())}
	fields := func(o *OpenPools) []any { return []any{&o.Hours, &o.Pools} }
	err = store.Each(ctx, db, "pools of unknown capacity", openPoolsSQL, args, fields, func(o *OpenPools) error {
		found = *o
		return nil
	})
	return found, err
}
