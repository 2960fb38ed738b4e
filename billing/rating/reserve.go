package rating

import (
	"math/big"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gpuledger/gpuledger/billing/prices"
)

// reserve charges an hour's unused reservations, where the platform could
// have supplied all of them.
func (r *Rater) reserve(hour time.Time, at int, values []priced) {
	version := &r.book.Versions[at]
	supplied := map[string]bool{}
	for _, tenant := range r.reserved {
		if !r.month(tenant).has(hour) {
			continue
		}
		for _, reservation := range version.Tenants[tenant].Reserved {
			could, known := supplied[reservation.Model]
			if !known {
				could = r.supplied(version, reservation.Model, values)
				supplied[reservation.Model] = could
			}
			if could {
				held := heldHours(values, tenant, reservation.Model)
				r.account(tenant).addReservation(hour, reservation, reservation.GPUs.Sub(held))
			}
		}
	}
}

// supplied tells whether the model's healthy and observed GPU-hours, unrounded
// and of all owners, reached all reservations of it.
func (r *Rater) supplied(version *prices.Version, model string, values []priced) bool {
	sliceMS := map[int]int64{} // by slices of the GPU
	stated := false
	for _, value := range values {
		if value.Model != model {
			continue
		}
		stated = stated || value.Tenant == ""
		if value.Bucket != bucketUnhealthy && value.Bucket != bucketUnobserved {
			sliceMS[value.Slices] += value.SliceMS
		}
	}
	if r.options.Simulate && !stated {
		return true
	}
	have := new(big.Rat)
	for slices, sum := range sliceMS {
		have.Add(have, big.NewRat(sum, int64(slices)*3_600_000))
	}
	want := decimal.Zero
	for _, terms := range version.Tenants {
		for _, reservation := range terms.Reserved {
			if reservation.Model == model {
				want = want.Add(reservation.GPUs)
			}
		}
	}
	return have.Cmp(want.Rat()) >= 0
}

func heldHours(values []priced, tenant, model string) decimal.Decimal {
	held := decimal.Zero
	for _, value := range values {
		if value.Tenant == tenant && value.Model == model {
			held = held.Add(value.quantity)
		}
	}
	return held
}

// reserveSilentHours charges the hours a simulation has no rows of at all:
// nothing was held, and everything could be supplied.
func (r *Rater) reserveSilentHours() {
	for _, tenant := range r.reserved {
		for _, hour := range r.month(tenant).hours {
			at := r.book.At(hour)
			if at < 0 || r.seen[hour.Unix()] {
				continue
			}
			for _, reservation := range r.book.Versions[at].Tenants[tenant].Reserved {
				r.account(tenant).addReservation(hour, reservation, reservation.GPUs)
			}
		}
	}
}
