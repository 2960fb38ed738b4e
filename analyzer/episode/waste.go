package episode

import (
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"
)

// Rates tells what a whole GPU-hour of a model costs at list price in the UTC
// hour that starts at hour. ok is false where no price is known.
type Rates interface {
	GPUHour(model string, hour time.Time) (rate decimal.Decimal, currency string, ok bool)
}

// NoRates knows no price: every cost stays zero, and the evidence says so.
type NoRates struct{}

// GPUHour never knows a rate.
func (NoRates) GPUHour(string, time.Time) (decimal.Decimal, string, bool) {
	return decimal.Decimal{}, "", false
}

// Waste adds up wasted GPU-hours and their list cost without rounding. The
// zero value is empty.
type Waste struct {
	hours    big.Rat
	cost     big.Rat
	currency string
	unpriced []string
}

// Add adds gpuHours of model in the given hour. Time without a rate, or priced
// in another currency than the time before it, adds no cost and is named by
// Unpriced: sums over two currencies would be worth nothing.
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

// Cost is the list cost and its currency. With no rate at all it is zero and
// the currency is empty.
func (w *Waste) Cost() (decimal.Decimal, string) { return round(&w.cost), w.currency }

// Note is a clause for the evidence, "" when all of the time had a rate.
func (w *Waste) Note() string {
	if len(w.unpriced) == 0 {
		return ""
	}
	slices.Sort(w.unpriced)
	return "; no rate known for model " + strings.Join(w.unpriced, ", ") + ", its cost is left at 0"
}

func round(r *big.Rat) decimal.Decimal { return decimal.NewFromBigRat(r, places) }

// msPerHour is the milliseconds of one hour.
const msPerHour = 3_600_000

// GPUHours turns slice-ms on a GPU of the given compute slices into GPU-hours:
// slice_ms ÷ (slices × 3,600,000), exactly. slices 0 is read as 1, the unit of
// a GPU that nothing is known of.
func GPUHours(sliceMS uint64, slices uint16) *big.Rat {
	if slices == 0 {
		slices = 1
	}
	num := new(big.Int).SetUint64(sliceMS)
	return new(big.Rat).SetFrac(num, big.NewInt(int64(slices)*msPerHour))
}
