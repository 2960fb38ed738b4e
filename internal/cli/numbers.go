package cli

import (
	"math/big"
	"strings"
	"time"

	"github.com/shopspring/decimal"
)

// CentPlaces is how precisely tables show money; documents are exact.
const CentPlaces = 2

// Amount reads a decimal of a document; a text that is not a decimal is 0.
func Amount(text string) decimal.Decimal {
	d, err := decimal.NewFromString(text)
	if err != nil {
		return decimal.Zero
	}
	return d
}

// Cents is money rounded half-even to cents.
func Cents(d decimal.Decimal) string { return d.RoundBank(CentPlaces).StringFixed(CentPlaces) }

// GroupedCents is Cents with a space between thousands.
func GroupedCents(d decimal.Decimal) string { return Grouped(Cents(d)) }

// Grouped puts a space between thousands of a plain decimal: "1 234 567.5".
func Grouped(number string) string {
	whole, fraction, point := strings.Cut(number, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	var b strings.Builder
	for i, r := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	if point {
		b.WriteString("." + fraction)
	}
	return sign + b.String()
}

// RFC3339 is a time in UTC; empty for none.
func RFC3339(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// Fixed is a decimal rounded as Readable does; a text that is not a decimal is returned
// unchanged.
func Fixed(number string, places int) string {
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return number
	}
	return Readable(r, places)
}

// mostPlaces is what documents are exact to.
const mostPlaces = 9

// Readable rounds r to places. A number too small to show two significant digits there
// gets as many places as these need, at most nine.
func Readable(r *big.Rat, places int) string {
	ten, scaled, at := big.NewRat(10, 1), new(big.Rat).Abs(r), 0
	for ; at < mostPlaces && scaled.Sign() > 0 && scaled.Cmp(big.NewRat(1, 1)) < 0; at++ {
		scaled.Mul(scaled, ten)
	}
	if at <= places {
		return r.FloatString(places)
	}
	return strings.TrimRight(r.FloatString(min(at+1, mostPlaces)), "0")
}
