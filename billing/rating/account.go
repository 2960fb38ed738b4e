package rating

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gpuledger/gpuledger/billing/prices"
)

// account gathers one tenant's month.
type account struct {
	tenant   string
	month    *month
	used     bool
	gpuHours decimal.Decimal
	effects  Effects
	counts   map[string]decimal.Decimal // GPU-hours of the month by model, for tiers
	energyMJ map[int]decimal.Decimal    // by version
	lines    ledgerLines
	inputs   hash.Hash // of all usage the invoice follows from
}

func newAccount(tenant string, m *month) *account {
	return &account{tenant: tenant, month: m, inputs: sha256.New(), counts: map[string]decimal.Decimal{}, energyMJ: map[int]decimal.Decimal{}, lines: ledgerLines{}}
}

// add charges the tenant's rows of one hour: effects 1 to 4 and 7, and what
// energy will be computed from.
func (a *account) add(book *prices.Book, at int, rows []priced) {
	version := &book.Versions[at]
	a.used = true
	var value decimal.Decimal
	tiered := map[string]decimal.Decimal{}
	for _, row := range rows {
		a.record("usage", row.Hour, row.Project, row.Model, row.Profile, row.ProfileSlices, row.Slices, row.Bucket, row.SliceMS, row.EnergyMJ)
		a.gpuHours = a.gpuHours.Add(row.quantity)
		a.energyMJ[at] = a.energyMJ[at].Add(decimal.NewFromInt(row.EnergyMJ))
		value = value.Add(row.list).Add(a.addProfile(row))
		if !row.byProfile {
			tiered[row.Model] = tiered[row.Model].Add(row.quantity)
		}
		a.addList(row)
		if row.Bucket == bucketIdle {
			a.addIdle(book.Currency, row, version.IdleSurcharge)
		}
	}
	for model, quantity := range tiered {
		value = value.Add(a.addTiers(model, version.Models[model], quantity))
	}
	if discount := version.Tenants[a.tenant].Discount; discount.IsPositive() {
		a.effects.Discount = a.effects.Discount.Sub(discount.Mul(value))
		a.lines.add(lineKey{effect: EffectDiscount, unit: book.Currency}, value, discount.Neg())
	}
}

func (a *account) addList(row priced) {
	a.effects.List = a.effects.List.Add(row.list)
	a.lines.add(lineKey{
		effect: EffectList, project: row.Project, model: row.Model, profile: row.Profile,
		bucket: row.Bucket, unit: UnitGPUHour,
	}, row.quantity, row.rate)
}

// addProfile replaces the list value of a row by its profile's price; the
// difference is returned. Both halves are lines, so that each is a product.
func (a *account) addProfile(row priced) decimal.Decimal {
	if !row.byProfile {
		return decimal.Zero
	}
	hours, _ := gpuHours(row.SliceMS, row.ProfileSlices)
	difference := hours.Mul(row.profilePrice).Sub(row.list)
	a.effects.Profile = a.effects.Profile.Add(difference)
	k := lineKey{effect: EffectProfile, project: row.Project, model: row.Model, profile: row.Profile, bucket: row.Bucket}
	k.unit, k.detail = UnitProfileHour, "hours of the profile at its own price"
	a.lines.add(k, hours, row.profilePrice)
	k.unit, k.detail = UnitGPUHour, "the list value it replaces"
	a.lines.add(k, row.quantity.Neg(), row.rate)
	return difference
}

// addTiers counts an hour's GPU-hours of a model on from the month's count;
// the part above each threshold costs its rate instead of the one before.
func (a *account) addTiers(model string, price prices.Model, quantity decimal.Decimal) decimal.Decimal {
	from := a.counts[model]
	to := from.Add(quantity)
	a.counts[model] = to
	sum, before := decimal.Zero, price.GPUHour
	for _, tier := range price.Tiers {
		if part := to.Sub(decimal.Max(from, tier.Above)); part.IsPositive() {
			difference := tier.GPUHour.Sub(before)
			sum = sum.Add(part.Mul(difference))
			a.lines.add(lineKey{
				effect: EffectTier, model: model, unit: UnitGPUHour,
				detail: fmt.Sprintf("above %s GPU-hours: %s instead of %s", tier.Above, tier.GPUHour, before),
			}, part, difference)
		}
		before = tier.GPUHour
	}
	a.effects.Tier = a.effects.Tier.Add(sum)
	return sum
}

func (a *account) addIdle(currency string, row priced, share decimal.Decimal) {
	if share.IsZero() {
		return
	}
	a.effects.IdleSurcharge = a.effects.IdleSurcharge.Add(row.list.Mul(share))
	a.lines.add(lineKey{
		effect: EffectIdleSurcharge, project: row.Project, model: row.Model, profile: row.Profile,
		bucket: row.Bucket, unit: currency,
	}, row.list, share)
}

// record makes a fact part of the usage hash; quoting keeps facts apart.
func (a *account) record(kind string, hour time.Time, facts ...any) {
	a.inputs.Write(fmt.Appendf(nil, "%s %d %q\n", kind, hour.Unix(), facts))
}

// addDistribution gives the tenant its part of an hour's platform time.
func (a *account) addDistribution(hour time.Time, given decimal.Decimal) {
	a.record("distribution", hour, given.String())
	a.effects.Distribution = a.effects.Distribution.Add(given)
}

// addReservation charges what was reserved and not held in an hour in which it
// could be supplied.
func (a *account) addReservation(hour time.Time, r prices.Reservation, unused decimal.Decimal) {
	a.record("supplied", hour, r.Model)
	if !unused.IsPositive() {
		return
	}
	a.effects.Reservation = a.effects.Reservation.Add(unused.Mul(r.UnusedGPUHour))
	a.lines.add(lineKey{
		effect: EffectReservation, model: r.Model, unit: UnitGPUHour,
		detail: "reserved and not held",
	}, unused, r.UnusedGPUHour)
}

// finish computes the effects of the month as a whole and rounds once.
func (a *account) finish(book *prices.Book, period Period) Invoice {
	e := &a.effects
	fixed, minimum := a.monthly(book)
	left := e.List.Add(e.Profile).Add(e.Tier).Add(e.Discount)
	if left.IsPositive() {
		e.FixedDiscount = decimal.Min(fixed, left).Neg()
	}
	if due := left.Add(e.FixedDiscount).Add(e.Reservation).Add(e.IdleSurcharge); minimum.GreaterThan(due) {
		e.Minimum = minimum.Sub(due)
	}
	a.finishEnergy(book)
	exact := e.Sum()
	e.Rounding = exact.RoundBank(book.MinorUnit).Sub(exact)
	a.lines.amount(EffectFixedDiscount, e.FixedDiscount, "")
	a.lines.amount(EffectMinimum, e.Minimum, "what is missing to "+minimum.String())
	a.lines.amount(EffectDistribution, e.Distribution, "share of free and stranded time")
	a.lines.amount(EffectRounding, e.Rounding, "")
	return Invoice{
		Tenant: a.tenant, Period: period.String(), Currency: book.Currency,
		GPUHours: a.gpuHours, Effects: *e, Total: e.Sum(), Lines: a.lines.sorted(),
		UsageHash: hex.EncodeToString(a.inputs.Sum(nil)),
	}
}

// monthly are the fixed discount and the minimum of the month: each hour's
// amount in force, summed, divided by the month's hours and rounded once.
func (a *account) monthly(book *prices.Book) (fixed, minimum decimal.Decimal) {
	hours := make([]int64, len(book.Versions))
	for _, hour := range a.month.hours {
		if at := book.At(hour); at >= 0 {
			hours[at]++
		}
	}
	for at, count := range hours {
		terms := book.Versions[at].Tenants[a.tenant]
		fixed = fixed.Add(terms.FixedDiscount.Mul(decimal.NewFromInt(count)))
		minimum = minimum.Add(terms.Minimum.Mul(decimal.NewFromInt(count)))
	}
	all := int64(len(a.month.hours))
	return roundFraction(fixed, all), roundFraction(minimum, all)
}

// finishEnergy prices the energy of the month, rounded per version.
func (a *account) finishEnergy(book *prices.Book) {
	for at, mJ := range a.energyMJ {
		price := book.Versions[at].KWh
		kWh := roundFraction(mJ, mJPerKWh)
		a.effects.Energy = a.effects.Energy.Add(kWh.Mul(price))
		if !price.IsZero() {
			a.lines.add(lineKey{effect: EffectEnergy, unit: UnitKWh}, kWh, price)
		}
	}
}
