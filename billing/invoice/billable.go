package invoice

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuledger/gpuledger/billing/prices"
	"github.com/gpuledger/gpuledger/billing/rating"
)

// ledgerTenantsSQL: who held anything in a range. Parameters: from, to.
const ledgerTenantsSQL = `
SELECT DISTINCT toString(arrayJoin(tenant)) AS tenant
FROM usage_hourly FINAL
WHERE hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')}`

// billable refuses a request of which nothing would come, before anything is
// decided for it: hours frozen for a month that has no data yet would stand as
// empty, and history imported afterwards could not change them. Who was given a
// part of frozen hours owes it, though its usage be another's by now. Errors:
// ErrNotFound, and what the price book lacks.
func (r *Register) billable(ctx context.Context, state decidedState, b *prices.Book, q FinaliseRequest, period rating.Period, from, to time.Time) error {
	tenants, err := ledgerTenants(ctx, r.deps.DB, from, to)
	if err != nil {
		return err
	}
	frozen, err := r.frozen(ctx, state, from, to)
	if err != nil {
		return err
	}
	terms, err := newRun(b, period, rating.Options{Frozen: frozen}).finish()
	if err != nil {
		return err
	}
	for _, owed := range terms.Invoices {
		tenants[owed.Tenant] = true
	}
	for _, tenant := range q.Tenants {
		if !tenants[tenant] {
			return fmt.Errorf("%w of tenant %q: it has no usage, minimum, reservation or frozen part of the month", ErrNotFound, tenant)
		}
	}
	if len(tenants) == 0 {
		return fmt.Errorf("%w: no tenant has usage, a minimum or a reservation in the month", ErrNotFound)
	}
	return nil
}

func ledgerTenants(ctx context.Context, db DB, from, to time.Time) (map[string]bool, error) {
	rows, err := db.Query(ctx, ledgerTenantsSQL, rangeParameters(from, to)...)
	if err != nil {
		return nil, fmt.Errorf("query the month's tenants: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err has told what matters
	tenants := map[string]bool{}
	for rows.Next() {
		var tenant string
		if err := rows.Scan(&tenant); err != nil {
			return nil, fmt.Errorf("read the month's tenants: %w", err)
		}
		tenants[tenant] = true
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the month's tenants: %w", err)
	}
	return tenants, nil
}
