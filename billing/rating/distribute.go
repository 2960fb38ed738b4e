package rating

import (
	"cmp"
	"math/big"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
)

// part is an owner's claim to an hour's platform time, and the amount given to it.
type part struct {
	tenant    string
	claim     decimal.Decimal
	given     *big.Int // 1e-9 of the currency
	remainder *big.Int
}

// distribute charges an hour's platform time to its owners, as frozen or according to the hour's rows.
func (r *Rater) distribute(hour time.Time, at int, values []priced) {
	var shares []Share
	var platform decimal.Decimal
	if frozen := r.options.Frozen.at(hour); frozen != nil {
		shares, platform = frozen.shares()
	} else {
		shares, platform = shareOut(&r.book.Versions[at], values)
	}
	if len(shares) == 0 {
		return
	}
	shared := SharedHour{Hour: hour, Platform: platform}
	for _, s := range shares {
		shared.Owners = shared.Owners.Add(s.Amount)
		if r.month(s.Tenant).has(hour) {
			r.account(s.Tenant).addDistribution(hour, at, s.Amount)
		}
	}
	r.shared = append(r.shared, shared)
	r.platform.share(hour, at, platform)
}

// shareOut distributes the list value of an hour's free and stranded time to its owners by their list value; the
// platform's part is the negative sum. In an hour without owners there are no shares.
func shareOut(version *prices.Version, values []priced) (shares []Share, platform decimal.Decimal) {
	if !version.Proportional {
		return nil, decimal.Zero
	}
	pool := decimal.Zero
	var parts []part // values are sorted by tenant
	for _, value := range values {
		switch {
		case value.Bucket == bucketFree || value.Bucket == bucketStranded:
			pool = pool.Add(value.list)
		case value.Tenant != "" && len(parts) > 0 && parts[len(parts)-1].tenant == value.Tenant:
			parts[len(parts)-1].claim = parts[len(parts)-1].claim.Add(value.list)
		case value.Tenant != "":
			parts = append(parts, part{tenant: value.Tenant, claim: value.list})
		}
	}
	pool = pool.RoundBank(places)
	if pool.IsZero() || !split(pool, parts) {
		return nil, decimal.Zero
	}
	for _, p := range parts {
		shares = append(shares, Share{p.tenant, decimal.NewFromBigInt(p.given, -places)})
	}
	return shares, pool.Neg()
}

// split distributes the pool to the parts by largest remainder at 9 places, ties by the tenant's name; false if the
// claims are zero. The order of parts doesn't change.
func split(pool decimal.Decimal, parts []part) bool {
	total := decimal.Zero
	for _, p := range parts {
		total = total.Add(p.claim)
	}
	if total.IsZero() {
		return false
	}
	scale := total.Exponent()
	units := integer(pool, -places)
	left := new(big.Int).Set(units)
	for i := range parts {
		product := new(big.Int).Mul(units, integer(parts[i].claim, scale))
		parts[i].given, parts[i].remainder = new(big.Int).QuoRem(product, integer(total, scale), new(big.Int))
		left.Sub(left, parts[i].given)
	}
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(parts[b].remainder.Cmp(parts[a].remainder), cmp.Compare(parts[a].tenant, parts[b].tenant))
	})
	one := big.NewInt(1)
	for _, i := range order[:left.Int64()] {
		parts[i].given.Add(parts[i].given, one)
	}
	return true
}

// integer is the coefficient of a value at an exponent not greater than its own.
func integer(value decimal.Decimal, exponent int32) *big.Int {
	factor := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(value.Exponent()-exponent)), nil)
	return factor.Mul(factor, value.Coefficient())
}

// reserve charges an hour's unused reservations of models of which the platform could have supplied all reservations.
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

// suppliedModel returns whether the model's healthy and observed GPU-hours, unrounded and of all owners, reached all
// its reservations. In a simulation they did unless a platform row contradicts.
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

// reserveSilentHours charges the hours of which a simulation has no rows: nothing was held, and everything could be
// supplied.
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
