package episode

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"
)

// Use is held time of one price.
type Use struct {
	Hour                  time.Time // the start of the UTC hour
	Tenant                string
	Model                 string
	Profile               string // of MIG; empty: a whole GPU
	Slices, ProfileSlices uint16 // compute slices of one GPU and of the profile
	Idle                  bool   // its bucket is idle: the price book may add a surcharge
}

// Rates gives the price of a GPU-hour as the tenant's invoice has it before tiers, discounts and other terms of a
// month: the model's list rate or the profile's own price, and the idle surcharge. ok is false if no price is known.
type Rates interface {
	GPUHour(u *Use) (rate *big.Rat, currency string, ok bool)
}

// NoRates has no prices: every cost stays zero, and the evidence says so.
type NoRates struct{}

// GPUHour never knows a rate.
func (NoRates) GPUHour(*Use) (*big.Rat, string, bool) { return nil, "", false }

// Amount is wasted time and its cost, without rounding.
type Amount struct{ GPUHours, Cost big.Rat }

// Add adds another amount.
func (a *Amount) Add(b *Amount) {
	a.GPUHours.Add(&a.GPUHours, &b.GPUHours)
	a.Cost.Add(&a.Cost, &b.Cost)
}

// Waste adds up wasted GPU-hours and their cost, by UTC hour and by price. The zero value is empty.
type Waste struct {
	hours    map[time.Time]*Amount
	byPrice  map[priceKey]*Amount
	currency string
	unpriced []string
}

// Add adds GPU-hours of one use. Time without a rate, or priced in another currency than earlier time, adds no cost,
// because a sum of two currencies has no meaning; Note names its model.
func (w *Waste) Add(rates Rates, u *Use, gpuHours *big.Rat) {
	if gpuHours.Sign() == 0 {
		return
	}
	var add Amount
	add.GPUHours.Set(gpuHours)
	key := priceKey{model: u.Model, profile: u.Profile}
	defer func() {
		w.at(u.Hour).Add(&add)
		w.of(key).Add(&add)
	}()
	rate, currency, ok := rates.GPUHour(u)
	if !ok || (w.currency != "" && w.currency != currency) {
		if !slices.Contains(w.unpriced, u.Model) {
			w.unpriced = append(w.unpriced, u.Model)
		}
		return
	}
	w.currency, key.rate = currency, rate.RatString()
	add.Cost.Mul(gpuHours, rate)
}

func (w *Waste) of(key priceKey) *Amount {
	if w.byPrice == nil {
		w.byPrice = map[priceKey]*Amount{}
	}
	a := w.byPrice[key]
	if a == nil {
		a = &Amount{}
		w.byPrice[key] = a
	}
	return a
}

func (w *Waste) at(hour time.Time) *Amount {
	if w.hours == nil {
		w.hours = map[time.Time]*Amount{}
	}
	a := w.hours[hour]
	if a == nil {
		a = &Amount{}
		w.hours[hour] = a
	}
	return a
}

// AddAll adds another waste. Cost in another currency is left out, as by Add.
func (w *Waste) AddAll(other *Waste) {
	if foreign := w.currency != "" && other.currency != "" && w.currency != other.currency; foreign {
		other = other.withoutCost()
	}
	w.currency = cmp.Or(w.currency, other.currency)
	for _, model := range other.unpriced {
		if !slices.Contains(w.unpriced, model) {
			w.unpriced = append(w.unpriced, model)
		}
	}
	for hour, a := range other.hours {
		w.at(hour).Add(a)
	}
	for key, a := range other.byPrice {
		w.of(key).Add(a)
	}
}

// withoutCost is the same time without a price.
func (w *Waste) withoutCost() *Waste {
	var out Waste
	for hour, a := range w.hours {
		out.at(hour).GPUHours.Set(&a.GPUHours)
	}
	for key, a := range w.byPrice {
		of := out.of(priceKey{model: key.model, profile: key.profile})
		of.GPUHours.Add(&of.GPUHours, &a.GPUHours)
		if !slices.Contains(out.unpriced, key.model) {
			out.unpriced = append(out.unpriced, key.model)
		}
	}
	return &out
}

// Between is the sum of the UTC hours that begin in [from, to).
func (w *Waste) Between(from, to time.Time) (sum Amount) {
	for hour, a := range w.hours {
		if !hour.Before(from) && hour.Before(to) {
			sum.Add(a)
		}
	}
	return sum
}

// Hour is the sum of a UTC hour with waste.
func (w *Waste) Hour(hour time.Time) *Amount { return w.hours[hour] }

// Hours are the UTC hours with waste, ascending.
func (w *Waste) Hours() []time.Time { return slices.SortedFunc(maps.Keys(w.hours), time.Time.Compare) }

// total is the sum of all hours.
func (w *Waste) total() (sum Amount) {
	for _, a := range w.hours {
		sum.Add(a)
	}
	return sum
}

// GPUHours is the sum, rounded once to 9 places.
func (w *Waste) GPUHours() decimal.Decimal {
	sum := w.total()
	return round(&sum.GPUHours)
}

// Cost is the cost, rounded once to 9 places, and its currency. Without any rate it is zero and the currency is empty.
func (w *Waste) Cost() (decimal.Decimal, string) {
	sum := w.total()
	return round(&sum.Cost), w.currency
}

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
