package rating

import (
	"math/big"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
)

// platformAccount gathers what is the platform's, by the book's zone.
type platformAccount struct {
	month    *month
	gpuHours decimal.Decimal
	list     decimal.Decimal
	given    decimal.Decimal
	energyMJ decimal.Decimal
	rest     rests
	lines    lineSums
	observe  func(Charge)
}

func newPlatformAccount(m *month, observe func(Charge)) *platformAccount {
	if observe == nil {
		observe = func(Charge) {}
	}
	return &platformAccount{month: m, rest: rests{}, lines: lineSums{}, observe: observe}
}

func (p *platformAccount) add(hour time.Time, at int, values []priced) {
	if !p.month.has(hour) {
		return
	}
	for _, value := range values {
		p.rest.add(value.Slices, value.rate, value.rest)
		if value.Tenant != "" {
			continue
		}
		p.gpuHours = p.gpuHours.Add(value.quantity)
		p.list = p.list.Add(value.list)
		p.energyMJ = p.energyMJ.Add(decimal.NewFromInt(value.EnergyMJ))
		c := timeOf(EffectList, at, value).times(value.quantity, UnitGPUHour, value.rate)
		p.lines.charge(c)
		p.observe(c)
	}
}

func (p *platformAccount) share(hour time.Time, at int, amount decimal.Decimal) {
	if p.month.has(hour) {
		p.given = p.given.Add(amount)
		p.observe(Charge{Hour: hour, Version: at, Effect: EffectDistribution, Detail: detailDistribution}.of(amount))
	}
}

func (p *platformAccount) finish(book *prices.Book, period Period) Platform {
	return Platform{
		Period: period.String(), Currency: book.Currency, List: p.list, Distribution: p.given,
		QuantityRounding: roundRat(p.rest.value(), 2*places), GPUHours: p.gpuHours, EnergyMJ: p.energyMJ,
		Lines: p.lines.sorted(),
	}
}

// rests sums what rounding quantities left over, by slices and rate: rest ÷
// (9 × slices) of 1e-9 GPU-hours (see gpuHours).
type rests map[restKey]*big.Int

type restKey struct {
	slices int
	rate   string
}

func (r rests) add(slices int, rate decimal.Decimal, rest int64) {
	if rest == 0 {
		return
	}
	key := restKey{slices, rate.String()}
	if r[key] == nil {
		r[key] = new(big.Int)
	}
	r[key].Add(r[key], big.NewInt(rest))
}

// value is the exact list value of the rests.
func (r rests) value() *big.Rat {
	sum := new(big.Rat)
	for k, rest := range r {
		hours := new(big.Rat).SetFrac(rest, new(big.Int).Mul(big.NewInt(9*int64(k.slices)), big.NewInt(1_000_000_000)))
		sum.Add(sum, hours.Mul(hours, decimal.RequireFromString(k.rate).Rat()))
	}
	return sum
}
