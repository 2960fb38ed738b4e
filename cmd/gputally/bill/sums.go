package bill

import (
	"math/big"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/usage"
)

func idleShare(inv *invoice.Invoice) string {
	if inv.GPUHours.IsZero() {
		return ""
	}
	idle := new(big.Rat).Mul(inv.Buckets.Idle.Rat(), big.NewRat(100, 1))
	return idle.Quo(idle, inv.GPUHours.Rat()).FloatString(1) + " %"
}

// sums are amounts of one row, each rounded to cents, that add up to the total.
type sums struct{ list, profiles, energy, other, total decimal.Decimal }

// sumsOf takes the displayed list value, which is rounded together with those of the other rows.
func sumsOf(inv *invoice.Invoice, list decimal.Decimal) sums {
	s := sums{
		list: list, profiles: inv.Effects.Profile.RoundBank(cli.CentPlaces),
		energy: inv.Effects.Energy.RoundBank(cli.CentPlaces), total: inv.Total.Decimal,
	}
	s.other = s.total.Sub(s.list).Sub(s.profiles).Sub(s.energy)
	return s
}

func (s sums) add(o sums) sums {
	return sums{
		s.list.Add(o.list), s.profiles.Add(o.profiles), s.energy.Add(o.energy), s.other.Add(o.other),
		s.total.Add(o.total),
	}
}

func (s sums) cells() []string {
	return []string{
		cli.GroupedCents(s.list), cli.GroupedCents(s.profiles), cli.GroupedCents(s.energy), cli.GroupedCents(s.other),
		cli.GroupedCents(s.total),
	}
}

// SumTable adds up in both directions: each row to what a tenant owes; the list values to the capacity's (C7b).
func SumTable(month *invoice.Month) cli.Table {
	t := cli.Table{Columns: cli.Columns("tenant", "GPU-hours number", "idle number", "list number",
		"profiles number", "energy number", "other number", "total number", " wide")}
	row := func(name, hours, idle string, amounts []string, note string) {
		t.Rows = append(t.Rows, append(append([]string{name, hours, idle}, amounts...), note))
	}
	var all sums
	list := decimal.Zero // exact, of the rows so far
	for i := range month.Invoices {
		inv := &month.Invoices[i]
		// Sums are rounded instead of rows, so that the last sum equals C7's to the cent.
		list = list.Add(inv.Effects.List)
		s := sumsOf(inv, list.RoundBank(cli.CentPlaces).Sub(all.list))
		all = all.add(s)
		row(ask.ShownTenant(usage.KindOwner, inv.Tenant), cli.Grouped(cli.Fixed(inv.GPUHours.String(), 2)), idleShare(inv),
			s.cells(), "")
	}
	row("all tenants", "", "", all.cells(), "")
	p := &month.Platform
	kept, capacity := p.List.Decimal.RoundBank(cli.CentPlaces), p.CapacityList.Decimal.RoundBank(cli.CentPlaces)
	listOnly := func(of decimal.Decimal) []string { return []string{cli.GroupedCents(of), "", "", "", ""} }
	row(ask.PlatformName, cli.Grouped(cli.Fixed(p.GPUHours.String(), 2)), "", listOnly(kept),
		"list value, not billed")
	if rounding := capacity.Sub(all.list).Sub(kept); !rounding.IsZero() {
		row("rounding", "", "", listOnly(rounding), "of quantities, and to cents")
	}
	row("capacity", "", "", listOnly(capacity), "list value of the capacity, as in C7")
	return t
}
