package rating

import (
	"math/big"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
)

// reserve charges an hour's unused reservations, where the platform could
// have supplied all of them.
func (r *Rater) reserve(hour time.Time, at int, values []priced) {
	version := &r.book.Versions[at]
	frozen := r.options.Frozen.at(hour)
	supplied := map[string]bool{}
	for _, tenant := range r.reserved {
		if !r.month(tenant).has(hour) {
			continue
		}
		for _, reservation := range version.Tenants[tenant].Reserved {
			could, known := supplied[reservation.Model]
			switch {
			case known:
			case frozen != nil:
				could = frozen.supplied[reservation.Model]
			default:
				could = suppliedModel(version, reservation.Model, values, r.options.Simulate)
			}
			if supplied[reservation.Model] = could; could {
				held := heldHours(values, tenant, reservation.Model)
				r.account(tenant).addReservation(hour, at, reservation, reservation.GPUs.Sub(held))
			}
		}
	}
}

// suppliedModel tells whether the model's healthy and observed GPU-hours,
// unrounded and of all owners, reached all reservations of it. In a simulation
// they did where no platform row says otherwise.
func suppliedModel(version *prices.Version, model string, values []priced, simulate bool) bool {
	sliceMS := map[int]*big.Int{} // by slices of the GPU
	stated := false
	for _, value := range values {
		if value.Model != model {
			continue
		}
		stated = stated || value.Tenant == ""
		if value.Bucket != bucketUnhealthy && value.Bucket != bucketUnobserved {
			if sliceMS[value.Slices] == nil {
				sliceMS[value.Slices] = new(big.Int)
			}
			sliceMS[value.Slices].Add(sliceMS[value.Slices], big.NewInt(value.SliceMS))
		}
	}
	if simulate && !stated {
		return true
	}
	have := new(big.Rat)
	for slices, sum := range sliceMS {
		have.Add(have, new(big.Rat).SetFrac(sum, big.NewInt(int64(slices)*3_600_000)))
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
				r.account(tenant).addReservation(hour, at, reservation, reservation.GPUs)
			}
		}
	}
}
