package month

import (
	"math"
	"slices"
	"time"

	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/analyzer/forecast"
)

// Use is the GPU-hours of a tenant in a cluster, on GPUs of a model, by hour. Hours count
// from the history's first.
type Use struct {
	Cluster, Model string
	Hours          []uint16
	GPUHours       []float64
}

// Tenant is the outlook of a tenant.
type Tenant struct {
	Name            string
	From, To        time.Time // its month, in full UTC hours
	GPUHours, Spend Outlook
	Currency        string // of Spend; empty: not all has a price
}

// Outlook is an amount of the month.
type Outlook struct {
	Used float64 // so far; NaN: not all of it has a price
	// Month is what it will be, Used included; without a forecast it is Used.
	Month  forecast.Amount
	Method string            // that weighs most; empty: there is no forecast
	Weight float64           // of that method
	Back   forecast.Backtest // NaN, 0: there is no forecast
	Why    string            // there is no forecast, though the month isn't over
}

// History is the ledger's hours from which tenants are forecast. See its clusters before the
// first tenant.
type History struct {
	From, End time.Time // full UTC hours
	// Month is the first day of the month that is asked for; zero: the one in which End is.
	Month time.Time
	Rates episode.Rates
	// Zone is that of a tenant's months; nil: UTC.
	Zone func(tenant string) *time.Location

	sights map[string][]sight // by cluster, of the hours
	prices map[priceKey]*price
}

// sight is what is known of an hour of a cluster.
type sight byte

const (
	absent sight = iota // no row
	unobserved
	observed
)

// See records whether an hour of a cluster was observed. Hours outside the history are
// ignored.
func (h *History) See(cluster string, hour time.Time, wasObserved bool) {
	if hour.Before(h.From) || !hour.Before(h.End) {
		return
	}
	if h.sights == nil {
		h.sights = map[string][]sight{}
	}
	if h.sights[cluster] == nil {
		h.sights[cluster] = make([]sight, h.hours())
	}
	h.sights[cluster][h.index(hour)] = unobserved
	if wasObserved {
		h.sights[cluster][h.index(hour)] = observed
	}
}

func (h *History) hours() int { return h.index(h.End) }

// index is that of an hour; the history's first has 0.
func (h *History) index(hour time.Time) int { return int(hour.Sub(h.From) / time.Hour) }

// ended is how far a cluster may lag behind the others before it is regarded as ended; the
// ledger uses the same time to close hours.
const ended = 72

// lose makes the hours missing in which a cluster was not observed: from its first row to
// its last, or to the history's end, if it has not ended.
func (h *History) lose(cluster string, amounts []float64) {
	sights := h.sights[cluster]
	first := slices.IndexFunc(sights, func(s sight) bool { return s != absent })
	if first < 0 {
		return
	}
	last := len(sights)
	for sights[last-1] == absent {
		last--
	}
	if len(sights)-last <= ended {
		last = len(sights)
	}
	for i := first; i < last; i++ {
		if sights[i] != observed {
			amounts[i] = math.NaN()
		}
	}
}

// period is the tenant's month.
func (h *History) period(tenant string) (from, to time.Time) {
	zone := time.UTC
	if h.Zone != nil {
		zone = h.Zone(tenant)
	}
	year, month, _ := h.End.In(zone).Date()
	if !h.Month.IsZero() {
		year, month, _ = h.Month.Date()
	}
	begin := func(month time.Month) time.Time {
		return time.Date(year, month, 1, 0, 0, 0, 0, zone).UTC().Add(time.Hour - 1).Truncate(time.Hour)
	}
	return begin(month), begin(month + 1)
}

// Tenant is the outlook of the tenant with these uses.
func (h *History) Tenant(name string, uses []Use) Tenant {
	t := Tenant{Name: name}
	t.From, t.To = h.period(name)
	gpuHours, spend := make([]float64, h.hours()), make([]float64, h.hours())
	unpriced := ""
	for _, u := range uses {
		if !h.add(&t, u, gpuHours, spend) {
			unpriced = u.Model
		}
	}
	first := max(slices.IndexFunc(gpuHours, func(v float64) bool { return v > 0 }), 0)
	for _, u := range uses {
		h.lose(u.Cluster, gpuHours)
		h.lose(u.Cluster, spend)
	}
	h.look(&t, &t.GPUHours, gpuHours[first:], "")
	why := ""
	if unpriced != "" {
		why = "no list price is known of model " + unpriced
		t.Spend.Used, t.Currency = math.NaN(), ""
	}
	h.look(&t, &t.Spend, spend[first:], why)
	return t
}

// add adds a use to the hours and to what was used in the month; ok is false if not all of
// it has a price in the tenant's currency.
func (h *History) add(t *Tenant, u Use, gpuHours, spend []float64) (ok bool) {
	p := h.price(u.Model, t.From, t.To)
	month, next := h.index(t.From), h.index(t.To)
	priced := p.currency != "" && (t.Currency == "" || t.Currency == p.currency)
	if priced {
		t.Currency = p.currency
	}
	ok = priced && !math.IsNaN(p.ahead)
	for k, hour := range u.Hours {
		i, v := int(hour), u.GPUHours[k]
		gpuHours[i] += v
		if ok {
			spend[i] += v * p.ahead
		}
		if i < month || i >= next {
			continue
		}
		t.GPUHours.Used += v
		if rate := p.month[i-month]; priced && !math.IsNaN(rate) {
			t.Spend.Used += v * rate
		} else {
			ok = false
		}
	}
	return ok
}

// look adds what is expected of the hours ahead, unless why not is known.
func (h *History) look(t *Tenant, o *Outlook, history []float64, why string) {
	o.Month = forecast.Amount{Expected: o.Used, Low80: o.Used, High80: o.Used, Low95: o.Used, High95: o.Used}
	o.Back = forecast.Backtest{Error1: math.NaN(), Error7: math.NaN(), Inside80: math.NaN()}
	ahead := int(t.To.Sub(h.End) / time.Hour)
	if h.End.Before(t.From) {
		why = "the month has not begun"
	}
	if o.Why = why; ahead <= 0 || why != "" {
		return
	}
	f, err := forecast.Make(history, ahead)
	if err != nil {
		o.Why = err.Error()
		return
	}
	o.Method, o.Weight, o.Back = f.Method, f.Weight, f.Backtest
	o.Month.Expected += f.Total.Expected
	o.Month.Low80 += f.Total.Low80
	o.Month.High80 += f.Total.High80
	o.Month.Low95 += f.Total.Low95
	o.Month.High95 += f.Total.High95
}

// price is the list price of a model in a month; NaN where none is known in the currency.
type price struct {
	currency string    // empty: no price is known
	month    []float64 // by hour
	ahead    float64   // the mean of the hours after the history
}

type priceKey struct {
	model    string
	from, to time.Time
}

func (h *History) price(model string, from, to time.Time) *price {
	key := priceKey{model, from, to}
	if p, ok := h.prices[key]; ok {
		return p
	}
	p, hours := &price{}, 0
	for hour := from; hour.Before(to); hour = hour.Add(time.Hour) {
		rate, currency, ok := h.Rates.GPUHour(&episode.Use{Model: model, Hour: hour})
		if ok && p.currency == "" {
			p.currency = currency
		}
		amount := math.NaN()
		if ok && currency == p.currency {
			amount, _ = rate.Float64()
		}
		p.month = append(p.month, amount)
		if !hour.Before(h.End) {
			p.ahead += amount
			hours++
		}
	}
	p.ahead /= float64(max(hours, 1))
	if h.prices == nil {
		h.prices = map[priceKey]*price{}
	}
	h.prices[key] = p
	return p
}
