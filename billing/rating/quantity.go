package rating

import (
	"math/big"

	"github.com/shopspring/decimal"
)

// places is the precision of quantities and of prorated and distributed
// amounts (R8).
const places = 9

// gpuHours is slice_ms ÷ (slices × 3,600,000), half-even to 9 places, and
// what that leaves to the exact value: rest ÷ (9 × slices) of 1e-9 GPU-hours.
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
	return roundRat(exact, places)
}

// roundRat rounds half-even to some decimal places.
func roundRat(value *big.Rat, digits int32) decimal.Decimal {
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil)
	numerator := new(big.Int).Mul(new(big.Int).Abs(value.Num()), scale)
	quotient, remainder := new(big.Int).QuoRem(numerator, value.Denom(), new(big.Int))
	tie := remainder.Lsh(remainder, 1).Cmp(value.Denom())
	if tie > 0 || tie == 0 && quotient.Bit(0) == 1 {
		quotient.Add(quotient, big.NewInt(1))
	}
	if value.Sign() < 0 {
		quotient.Neg(quotient)
	}
	return decimal.NewFromBigInt(quotient, -digits)
}
