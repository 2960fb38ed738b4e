package rating

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/internal/meter"
)

// account accumulates one tenant's month.
type account struct {
	tenant   string
	month    *month
	used     bool
	gpuHours decimal.Decimal
	effects  Effects
	counts   map[string]decimal.Decimal // GPU-hours of the month by model, for tiers
	energyMJ map[int]decimal.Decimal    // by version
	lines    lineSums
	copy     *copyWriter // of all usage from which the invoice follows
	observe  func(Charge)
}

func newAccount(tenant string, m *month, options Options) *account {
	a := &account{
		tenant: tenant, month: m, counts: map[string]decimal.Decimal{}, energyMJ: map[int]decimal.Decimal{},
		lines: lineSums{}, observe: options.Observe,
	}
	if options.Copy == nil {
		a.copy = newCopyWriter(nil)
	} else {
		a.copy = newCopyWriter(options.Copy(tenant))
	}
	return a
}

// charge adds an amount to its line.
func (a *account) charge(c Charge) {
	a.lines.charge(c)
	a.tell(c)
}

func (a *account) tell(c Charge) {
	if a.observe != nil {
		c.Tenant = a.tenant
		a.observe(c)
	}
}

// add charges the tenant's rows of one hour: effects 1 to 4 and 7, and the amounts from which energy is computed.
func (a *account) add(book *prices.Book, at int, rows []priced) {
	version := &book.Versions[at]
	a.used = true
	var value decimal.Decimal
	tiered := map[string]decimal.Decimal{}
	for _, row := range rows {
		a.copy.usage(row.Row)
		a.gpuHours = a.gpuHours.Add(row.quantity)
		a.energyMJ[at] = a.energyMJ[at].Add(decimal.NewFromInt(row.EnergyMJ))
		a.addList(at, row)
		value = value.Add(row.list).Add(a.addProfile(at, row))
		if !row.byProfile {
			tiered[row.Model] = tiered[row.Model].Add(row.quantity)
		}
		if row.Bucket == bucketIdle {
			a.addIdle(book.Currency, at, row, version.IdleSurcharge)
		}
	}
	hour := rows[0].Hour
	for _, model := range slices.Sorted(maps.Keys(tiered)) {
		of := Charge{Hour: hour, Version: at, Effect: EffectTier, Model: model}
		value = value.Add(a.addTiers(of, version.Models[model], tiered[model]))
	}
	if discount := version.Tenants[a.tenant].Discount; discount.IsPositive() {
		c := Charge{Hour: hour, Version: at, Effect: EffectDiscount}.times(value, book.Currency, discount.Neg())
		a.effects.Discount = a.effects.Discount.Add(c.Amount)
		a.charge(c)
	}
}

// chargeOf returns a charge of a row's key, without an amount.
func chargeOf(effect string, version int, row priced) Charge {
	return Charge{
		Hour: row.Hour, Version: version, Effect: effect,
		Project: row.Project, Model: row.Model, Profile: row.Profile, Bucket: row.Bucket, ReportedAs: row.reportedAs,
	}.detailed("")
}

// detailed returns the charge with a text, which also contains the size as which its profile was reported.
func (c Charge) detailed(text string) Charge {
	c.Detail = text
	switch {
	case c.ReportedAs != "" && text != "":
		c.Detail += "; reported as " + c.ReportedAs + " of the GPU"
	case c.ReportedAs != "":
		c.Detail = "reported as " + c.ReportedAs + " of the GPU, which other reports of the hour contradict"
	}
	return c
}

// timeOf returns a charge of a row's time.
func timeOf(effect string, version int, row priced) Charge {
	c := chargeOf(effect, version, row)
	c.SliceMS, c.Slices, c.ProfileSlices = row.SliceMS, row.Slices, row.ProfileSlices
	return c
}

func (a *account) addList(version int, row priced) {
	a.effects.List = a.effects.List.Add(row.list)
	a.charge(timeOf(EffectList, version, row).times(row.quantity, UnitGPUHour, row.rate))
}

// addProfile replaces the list value of a row by its profile's price; it returns the difference. Both are lines, so
// that each is a product.
func (a *account) addProfile(version int, row priced) decimal.Decimal {
	if !row.byProfile {
		return decimal.Zero
	}
	hours, _ := gpuHours(row.SliceMS, row.ProfileSlices)
	difference := hours.Mul(row.profilePrice).Sub(row.list)
	a.effects.Profile = a.effects.Profile.Add(difference)
	c := timeOf(EffectProfile, version, row)
	a.charge(c.detailed("hours of the profile at its own price").times(hours, UnitProfileHour, row.profilePrice))
	a.charge(c.detailed("the list value it replaces").times(row.quantity.Neg(), UnitGPUHour, row.rate))
	return difference
}

// addTiers adds an hour's GPU-hours of a model to the month's count; the part above each threshold costs that tier's
// rate instead of the previous one.
func (a *account) addTiers(of Charge, price prices.Model, quantity decimal.Decimal) decimal.Decimal {
	from := a.counts[of.Model]
	to := from.Add(quantity)
	a.counts[of.Model] = to
	sum, before := decimal.Zero, price.GPUHour
	for _, tier := range price.Tiers {
		if part := to.Sub(decimal.Max(from, tier.Above)); part.IsPositive() {
			c := of.times(part, UnitGPUHour, tier.GPUHour.Sub(before))
			c.TierAbove = tier.Above.String()
			c.Detail = fmt.Sprintf("above %s GPU-hours: %s instead of %s", tier.Above, tier.GPUHour, before)
			sum = sum.Add(c.Amount)
			a.charge(c)
		}
		before = tier.GPUHour
	}
	a.effects.Tier = a.effects.Tier.Add(sum)
	return sum
}

func (a *account) addIdle(currency string, version int, row priced, share decimal.Decimal) {
	if share.IsZero() {
		return
	}
	c := chargeOf(EffectIdleSurcharge, version, row).times(row.list, currency, share)
	a.effects.IdleSurcharge = a.effects.IdleSurcharge.Add(c.Amount)
	a.charge(c)
}

// addDistribution adds the tenant's part of an hour's platform time.
func (a *account) addDistribution(hour time.Time, version int, given decimal.Decimal) {
	a.used = a.used || !given.IsZero()
	a.copy.add(Fact{Hour: hour, Distribution: given})
	a.effects.Distribution = a.effects.Distribution.Add(given)
	a.tell(Charge{Hour: hour, Version: version, Effect: EffectDistribution, Detail: detailDistribution}.of(given))
}

const detailDistribution = "share of free and stranded time"

// addReservation charges what was reserved and not held in an hour in which it could be supplied.
func (a *account) addReservation(hour time.Time, version int, r prices.Reservation, unused decimal.Decimal) {
	a.copy.add(Fact{Hour: hour, Supplied: r.Model})
	if !unused.IsPositive() {
		return
	}
	c := Charge{
		Hour: hour, Version: version, Effect: EffectReservation, Model: r.Model,
		Detail: "reserved and not held",
	}.times(unused, UnitGPUHour, r.UnusedGPUHour)
	a.effects.Reservation = a.effects.Reservation.Add(c.Amount)
	a.charge(c)
}

// finish computes the effects of the month as a whole and rounds once.
func (a *account) finish(book *prices.Book, period Period) (Invoice, error) {
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
	a.finishLine(EffectFixedDiscount, e.FixedDiscount, "")
	a.finishLine(EffectMinimum, e.Minimum, "what is missing to "+minimum.String())
	a.finishLine(EffectRounding, e.Rounding, "")
	a.lines.charge(Charge{Effect: EffectDistribution, Detail: detailDistribution}.of(e.Distribution)) // by hour
	lines := a.lines.sorted()
	for i := range lines {
		if lines[i].Model != "" && lines[i].Bucket != "" { // held by an owner
			lines[i].SKU = book.SKUName(lines[i].Profile)
		}
	}
	invoice := NewInvoice(book, period, a.tenant).with(a.gpuHours, *e, book.MinorUnit, lines)
	var err error
	invoice.UsageHash, err = a.copy.sum()
	return invoice, err
}

// finishLine charges an amount of the month as a whole.
func (a *account) finishLine(effect string, amount decimal.Decimal, detail string) {
	if !amount.IsZero() {
		a.charge(Charge{Version: -1, Effect: effect, Detail: detail}.of(amount))
	}
}

// monthly returns the month's fixed discount and minimum: each hour's amount in force, summed, divided by the month's
// hours and rounded once.
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
	for _, at := range slices.Sorted(maps.Keys(a.energyMJ)) {
		price := book.Versions[at].KWh
		if price.IsZero() {
			continue
		}
		c := Charge{Version: at, Effect: EffectEnergy}.times(roundFraction(a.energyMJ[at], meter.MJPerKWh), UnitKWh, price)
		a.effects.Energy = a.effects.Energy.Add(c.Amount)
		a.charge(c)
	}
}
