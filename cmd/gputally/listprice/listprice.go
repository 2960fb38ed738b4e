// Package listprice is what an explained GPU-hour comes to by the price book's list rates,
// before a tenant's own terms, which are of a month.
package listprice

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/ingest/explain"
	"github.com/gputally/gputally/internal/meter"
)

// Explanation is an explanation with its price.
type Explanation struct {
	*explain.Explanation
	Price Price `json:"price"`
	// Invoiced is the line of the invoice by which the GPU-hour was named; nil: it was named otherwise.
	Invoiced *Invoiced `json:"invoiced,omitempty"`
}

// Price is what the GPU-hour comes to by the price book's list rates,
// before a tenant's own terms, which are of a month.
type Price struct {
	Book     string `json:"price_book"`
	Currency string `json:"currency"`
	Version  string `json:"version_effective,omitempty"`
	// GPUHour is the list rate of an hour of the whole GPU.
	GPUHour string `json:"gpu_hour,omitempty"`
	// Missing says why there is no price; empty where there is one.
	Missing  string       `json:"missing,omitempty"`
	Owners   []ownerPrice `json:"owners"`
	Platform *exactAmount `json:"platform_list_value,omitempty"` // free, stranded, unhealthy, unobserved
	Capacity *exactAmount `json:"capacity_list_value,omitempty"`
	// Proved says that owners and platform sum to the capacity (R7), or that
	// there was nothing to prove.
	Proved bool `json:"proved"`
}

// ownerPrice is one owner's on one leaf.
type ownerPrice struct {
	Owner    string       `json:"owner"`
	Tenant   string       `json:"tenant"`
	Leaf     string       `json:"leaf"`
	GPUHours exactAmount  `json:"gpu_hours"`
	List     exactAmount  `json:"list_value"`
	Profile  string       `json:"profile,omitempty"`
	Rate     string       `json:"profile_hour,omitempty"`   // the profile's own price
	Own      *exactAmount `json:"profile_value,omitempty"`  // what it comes to instead
	Idle     *exactAmount `json:"idle_surcharge,omitempty"` // on the list value of idle time
	Energy   *exactAmount `json:"energy,omitempty"`         // at the price of a kWh
	Total    exactAmount  `json:"total_before_terms"`       // of all of the above
	formula  string       // in words
}

// exactAmount is a figure without rounding: a decimal of twelve places for reading, and the fraction.
type exactAmount struct {
	Decimal string `json:"decimal"`
	Exact   string `json:"exact"` // numerator/denominator
	Rat     *big.Rat
}

const amountPlaces = 12

func exactly(r *big.Rat) exactAmount {
	text := strings.TrimRight(strings.TrimRight(r.FloatString(amountPlaces), "0"), ".")
	return exactAmount{Decimal: text, Exact: r.RatString(), Rat: r}
}

// String is the decimal, with an ellipsis where it goes on.
func (a exactAmount) String() string {
	if d, ok := new(big.Rat).SetString(a.Decimal); !ok || d.Cmp(a.Rat) != 0 {
		return a.Decimal + "…"
	}
	return a.Decimal
}

// Of rates an explanation. Of a part, only the owners that are shown are
// rated, and nothing is to be proved.
func Of(book *prices.Book, e *explain.Explanation, q explain.Request) Price {
	p := Price{Book: book.Name, Currency: book.Currency, Owners: []ownerPrice{}, Proved: true}
	at := book.At(e.Hour)
	if at < 0 {
		p.Missing = (&rating.BeforeBookError{Hour: e.Hour, Start: book.Versions[0].Effective, Book: book.Name}).Error()
		return p
	}
	version := &book.Versions[at]
	p.Version = version.Effective.Format(time.RFC3339)
	model, ok := version.Models[e.Model]
	if !ok {
		p.Missing = (&rating.MissingModelError{
			Model: e.Model, Hour: e.Hour, Version: version.Effective,
			Book: book.Name,
		}).Error()
		return p
	}
	p.GPUHour = model.GPUHour.String()
	sum := new(big.Rat)
	for _, o := range e.Owners {
		owner := priceOwner(version, model, e.Figures.GPUSlices, o)
		sum.Add(sum, owner.List.Rat)
		p.Owners = append(p.Owners, owner)
	}
	if q.Leaf != "" || q.Tenant != "" {
		return p
	}
	f := &e.Figures
	platform := exactly(value(f.Free+f.Stranded+f.Unhealthy+f.Unobserved, f.GPUSlices, model.GPUHour))
	capacity := exactly(value(f.CapacitySliceMS, f.GPUSlices, model.GPUHour))
	p.Platform, p.Capacity = &platform, &capacity
	p.Proved = sum.Add(sum, platform.Rat).Cmp(capacity.Rat) == 0
	return p
}

// value is slice-ms ÷ (slices of one GPU × 3,600,000) × rate, exactly.
func value(sliceMS int64, gpuSlices int, rate decimal.Decimal) *big.Rat {
	hours := big.NewRat(sliceMS, int64(max(gpuSlices, 1))*meter.HourMS)
	return hours.Mul(hours, rate.Rat())
}

func priceOwner(version *prices.Version, model prices.Model, gpuSlices int, o explain.Owner) ownerPrice {
	one := decimal.NewFromInt(1)
	p := ownerPrice{
		Owner: o.Label, Tenant: o.Tenant, Leaf: o.Leaf,
		GPUHours: exactly(value(o.Held(), gpuSlices, one)), List: exactly(value(o.Held(), gpuSlices, model.GPUHour)),
	}
	total := new(big.Rat).Set(p.List.Rat)
	p.formula = fmt.Sprintf("%s GPU-h × %s", p.GPUHours, model.GPUHour)
	if rate, ok := model.Profiles[o.Profile]; ok && o.Profile != "" && o.ProfileSlices > 0 {
		own := exactly(value(o.Held(), o.ProfileSlices, rate))
		p.Profile, p.Rate, p.Own = o.Profile, rate.String(), &own
		total.Set(own.Rat)
		p.formula = fmt.Sprintf("%s hours of %s × %s (the profile's own price, instead of the list value %s)",
			exactly(value(o.Held(), o.ProfileSlices, one)), o.Profile, rate, p.List)
	}
	if o.Idle > 0 && version.IdleSurcharge.IsPositive() {
		idle := exactly(new(big.Rat).Mul(value(o.Idle, gpuSlices, model.GPUHour), version.IdleSurcharge.Rat()))
		p.Idle = &idle
		total.Add(total, idle.Rat)
		p.formula += fmt.Sprintf(" + idle surcharge %s", idle)
	}
	if o.EnergyMJ != 0 && version.KWh.IsPositive() {
		energy := exactly(new(big.Rat).Mul(big.NewRat(o.EnergyMJ, meter.MJPerKWh), version.KWh.Rat()))
		p.Energy = &energy
		total.Add(total, energy.Rat)
		p.formula += fmt.Sprintf(" + energy %s", energy)
	}
	p.Total = exactly(total)
	return p
}

// Text is the price for a terminal.
func (p Price) Text() string {
	var b strings.Builder
	b.WriteString("\nPRICE\n")
	add := func(indent int, format string, args ...any) {
		b.WriteString(explain.Wrap(fmt.Sprintf(format, args...), indent))
	}
	if p.Missing != "" {
		add(2, "none: %s", p.Missing)
		return b.String()
	}
	add(2, "list rate %s %s per GPU-hour; %s, version of %s", p.GPUHour, p.Currency, p.Book, p.Version)
	for _, o := range p.Owners {
		add(2, "%s (tenant %s, leaf %s): %s %s", o.Owner, o.Tenant, o.Leaf, o.Total, p.Currency)
		add(6, "= %s", o.formula)
	}
	if p.Platform != nil {
		verdict := "owners' and platform's list values sum to it"
		if !p.Proved {
			verdict = "OWNERS' AND PLATFORM'S LIST VALUES DON'T SUM TO IT"
		}
		add(2, "platform, not a tenant's: list value %s %s", p.Platform, p.Currency)
		add(2, "capacity: list value %s %s; %s", p.Capacity, p.Currency, verdict)
	}
	add(2, "unrounded; tiers, discounts, minimum, reservation and distribution are of the month")
	return b.String()
}
