package episode

import (
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"
)

// Rates gives the list price of a whole GPU-hour of a model in the UTC hour that
// begins at hour. ok is false if no price is known.
type Rates interface {
	GPUHour(model string, hour time.Time) (rate decimal.Decimal, currency string, ok bool)
}

// NoRates has no prices: every cost stays zero, and the evidence says so.
type NoRates struct{}

// GPUHour never knows a rate.
func (NoRates) GPUHour(string, time.Time) (decimal.Decimal, string, bool) {
	return decimal.Decimal{}, "", false
}

// Waste adds up wasted GPU-hours and their list cost without rounding. The zero value
// is empty.
type Waste struct {
	hours    big.Rat
	cost     big.Rat
	currency string
	unpriced []string
}

// Add adds gpuHours of a model in the given hour. Time without a rate, or priced in
// another currency than earlier time, adds no cost, because a sum of two currencies
// has no meaning; Note names its model.
func (w *Waste) Add(rates Rates, model string, hour time.Time, gpuHours *big.Rat) {
	w.hours.Add(&w.hours, gpuHours)
	if gpuHours.Sign() == 0 {
		return
	}
	rate, currency, ok := rates.GPUHour(model, hour)
	if !ok || (w.currency != "" && w.currency != currency) {
		if !slices.Contains(w.unpriced, model) {
			w.unpriced = append(w.unpriced, model)
		}
		return
	}
	w.currency = currency
	w.cost.Add(&w.cost, new(big.Rat).Mul(gpuHours, rate.Rat()))
}

// GPUHours is the sum, rounded once to 9 places.
func (w *Waste) GPUHours() decimal.Decimal { return round(&w.hours) }

// Cost is the list cost and its currency. Without any rate it is zero and the currency
// is empty.
func (w *Waste) Cost() (decimal.Decimal, string) { return round(&w.cost), w.currency }

// Note is a clause for the evidence, or "" if all time had a rate.
func (w *Waste) Note() string {
	if len(w.unpriced) == 0 {
		return ""
	}
	slices.Sort(w.unpriced)
	return "; no rate is known for model " + strings.Join(w.unpriced, ", ") + ", whose cost is not included"
}

func round(r *big.Rat) decimal.Decimal { return decimal.NewFromBigRat(r, places) }

// msPerHour is the number of milliseconds in an hour.
const msPerHour = 3_600_000

// GPUHours converts slice-ms on a GPU with the given number of compute slices to
// GPU-hours: slice_ms ÷ (slices × 3,600,000), exactly. slices 0 (unknown) is read as
// 1.
func GPUHours(sliceMS uint64, slices uint16) *big.Rat {
	if slices == 0 {
		slices = 1
	}
	num := new(big.Int).SetUint64(sliceMS)
	return new(big.Rat).SetFrac(num, big.NewInt(int64(slices)*msPerHour))
}
