package main

import (
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/internal/usage"
)

// sums are amounts of one row, each in cents, that add up to the total.
type sums struct{ list, profiles, energy, other, total decimal.Decimal }

// sumsOf has the list value as shown, which is rounded together with those of the
// other rows.
func sumsOf(inv *invoice.Invoice, list decimal.Decimal) sums {
	s := sums{
		list: list, profiles: inv.Effects.Profile.RoundBank(centPlaces),
		energy: inv.Effects.Energy.RoundBank(centPlaces), total: inv.Total.Decimal,
	}
	s.other = s.total.Sub(s.list).Sub(s.profiles).Sub(s.energy)
	return s
}

func (s sums) add(o sums) sums {
	return sums{s.list.Add(o.list), s.profiles.Add(o.profiles), s.energy.Add(o.energy), s.other.Add(o.other), s.total.Add(o.total)}
}

func (s sums) cells() []string {
	return []string{
		groupedCents(s.list), groupedCents(s.profiles), groupedCents(s.energy), groupedCents(s.other), groupedCents(s.total),
	}
}

// sumTable adds up in both directions: across, to what a tenant owes; down the
// list values, to the capacity's (C7b).
func sumTable(month *invoice.Month) table {
	t := table{columns: append(textColumns([]string{"tenant"}), numberColumns("GPU-hours", "idle", "list", "profiles", "energy", "other", "total")...)}
	t.columns = append(t.columns, column{name: "", wide: true})
	row := func(name, hours, idle string, amounts []string, note string) {
		t.rows = append(t.rows, append(append([]string{name, hours, idle}, amounts...), note))
	}
	var all sums
	list := decimal.Zero // exact, of the rows so far
	for i := range month.Invoices {
		inv := &month.Invoices[i]
		// Sums are rounded and not rows, so that the last sum is C7's to the cent.
		list = list.Add(inv.Effects.List)
		s := sumsOf(inv, list.RoundBank(centPlaces).Sub(all.list))
		all = all.add(s)
		row(shownTenant(usage.KindOwner, inv.Tenant), grouped(fixed(inv.GPUHours.String(), 2)), idleShare(inv), s.cells(), "")
	}
	row("all tenants", "", "", all.cells(), "")
	p := &month.Platform
	kept, capacity := p.List.Decimal.RoundBank(centPlaces), p.CapacityList.Decimal.RoundBank(centPlaces)
	listOnly := func(of decimal.Decimal) []string { return []string{groupedCents(of), "", "", "", ""} }
	row(platformName, grouped(fixed(p.GPUHours.String(), 2)), "", listOnly(kept), "list value that nobody pays")
	if rounding := capacity.Sub(all.list).Sub(kept); !rounding.IsZero() {
		row("rounding", "", "", listOnly(rounding), "of quantities, and to cents")
	}
	row("capacity", "", "", listOnly(capacity), "list value of all there is, as in C7")
	return t
}

func numberColumns(names ...string) []column {
	columns := make([]column, len(names))
	for i, name := range names {
		columns[i] = column{name: name, number: true}
	}
	return columns
}

// centPlaces is how precisely tables show money; documents are exact.
const centPlaces = 2

// amount reads a decimal of a document; what is none counts as nothing.
func amount(text string) decimal.Decimal {
	d, err := decimal.NewFromString(text)
	if err != nil {
		return decimal.Zero
	}
	return d
}

func cents(d decimal.Decimal) string { return d.RoundBank(centPlaces).StringFixed(centPlaces) }

func groupedCents(d decimal.Decimal) string { return grouped(cents(d)) }
