package rating

import (
	"math/big"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
)

// places is the precision of quantities and of prorated and distributed amounts (R8).
const places = 9

// gpuHours is slice_ms ÷ (slices × 3,600,000), half-even to 9 places, and the rounding difference to the exact value:
// rest ÷ (9 × slices) of 1e-9 GPU-hours.
func gpuHours(sliceMS int64, slices int) (quantity decimal.Decimal, rest int64) {
	// 1e9 ÷ 3.6e6 = 2500 ÷ 9 keeps the product in 64 bits up to maxSliceMS.
	denominator := 9 * int64(slices)
	nano := divideHalfEven(sliceMS*2500, denominator)
	return decimal.New(nano, -places), sliceMS*2500 - nano*denominator
}

// divideHalfEven is numerator ÷ denominator rounded to the nearest integer,
// ties to the even one; both are non-negative.
func divideHalfEven(numerator, denominator int64) int64 {
	quotient, remainder := numerator/denominator, numerator%denominator
	if twice := 2 * remainder; twice > denominator || twice == denominator && quotient%2 == 1 {
		quotient++
	}
	return quotient
}

// roundFraction is numerator ÷ denominator, half-even to 9 places.
func roundFraction(numerator decimal.Decimal, denominator int64) decimal.Decimal {
	exact := new(big.Rat).Quo(numerator.Rat(), new(big.Rat).SetInt64(denominator))
	return prices.RoundRat(exact, places)
}

// platformAccount accumulates the platform's account, by the book's zone.
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

func (p *platformAccount) finish() Platform {
	return Platform{
		GPUHours: Fixed(p.gpuHours, hourPlaces), List: Exact(p.list), Distribution: Exact(p.given),
		EnergyMJ:         Exact(p.energyMJ),
		QuantityRounding: Exact(prices.RoundRat(p.rest.value(), 2*places)), Lines: p.lines.sorted(),
	}
}

// rests sums the rounding differences of quantities, by slices and rate: rest ÷ (9 × slices) of 1e-9 GPU-hours (see
// gpuHours).
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
