package bill

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/usage"
)

// printSimulations prints one book's month effect by effect, several books side by side.
func printSimulations(s *cli.Session, period string, done []simulation) error {
	nameSimulations(done)
	switch {
	case s.Format == cli.AsJSON && len(done) == 1:
		return printDocument(s, listed(done[0].invoices))
	case s.Format == cli.AsJSON:
		return printDocument(s, comparisonOf(period, done))
	case len(done) == 1:
		return s.Print(effectTable(done[0], s.Format == cli.AsTable))
	}
	return s.Print(comparisonTable(done, s.Format == cli.AsTable))
}

// simulated is an invoice in JSON: figures only, exact.
type simulated struct {
	Tenant   string          `json:"tenant"`
	Period   string          `json:"period"`
	Currency string          `json:"currency"`
	GPUHours decimal.Decimal `json:"gpu_hours"`
	Effects  rating.Effects  `json:"effects"`
	Total    decimal.Decimal `json:"total"`
}

// listed is an array in JSON, even if it is empty.
func listed(invoices []rating.Invoice) []simulated {
	list := make([]simulated, len(invoices))
	for i := range invoices {
		inv := &invoices[i]
		list[i] = simulated{inv.Tenant, inv.Period, inv.Currency, inv.GPUHours.Decimal, inv.Effects, inv.Total.Decimal}
	}
	return list
}

// nameSimulations names each book by its file, and numbers equal names. Names are column headers, in which a
// spreadsheet would take a leading sign for a formula's.
func nameSimulations(done []simulation) {
	seen := map[string]int{}
	for i := range done {
		name := strings.TrimLeft(cli.Printable(filepath.Base(done[i].book.Name)), "=+-@")
		if seen[name]++; seen[name] > 1 {
			name += " (" + strconv.Itoa(seen[name]) + ")"
		}
		done[i].name = name
	}
}

// total is the sum that all tenants owe.
func (m *simulation) total() decimal.Decimal {
	sum := decimal.Zero
	for i := range m.invoices {
		sum = sum.Add(m.invoices[i].Total.Decimal)
	}
	return sum
}

// of is one tenant's invoice; zero if there is none.
func (m *simulation) of(tenant string) rating.Invoice {
	byTenant := func(inv rating.Invoice, name string) int { return strings.Compare(inv.Tenant, name) }
	if at, found := slices.BinarySearchFunc(m.invoices, tenant, byTenant); found {
		return m.invoices[at]
	}
	return rating.Invoice{Tenant: tenant}
}

// comparison is the JSON output for several books; amounts are exact.
type comparison struct {
	Period   string         `json:"period"`
	Currency string         `json:"currency"`
	Books    []comparedBook `json:"books"`
}

type comparedBook struct {
	Prices string `json:"prices"`
	SHA256 string `json:"price_book_sha256,omitempty"` // none of --gpu-hour
	Total  string `json:"total"`
	// Difference is the difference to the first book's total.
	Difference string      `json:"difference"`
	Invoices   []simulated `json:"invoices"`
}

func comparisonOf(period string, done []simulation) comparison {
	c := comparison{Period: period, Currency: done[0].book.Currency}
	for i := range done {
		total := done[i].total()
		c.Books = append(c.Books, comparedBook{
			Prices: done[i].name, SHA256: done[i].book.Hash, Total: total.String(),
			Difference: total.Sub(done[0].total()).String(), Invoices: listed(done[i].invoices),
		})
	}
	return c
}

// effectTable has a row per tenant. For reading, it rounds amounts like the total, leaves out the effects that are
// then zero for all, and ends with a sum and the platform's list value.
func effectTable(m simulation, forReading bool) cli.Table {
	var all rating.Effects
	effects := all.Ordered()
	shown := make([]bool, len(effects))
	for _, inv := range m.invoices {
		for i, effect := range inv.Effects.Ordered() {
			effects[i].Amount = effects[i].Amount.Add(effect.Amount)
			shown[i] = shown[i] || !effect.Amount.RoundBank(m.book.MinorUnit).IsZero()
		}
	}
	t := cli.Table{Columns: cli.Columns("tenant", "gpu_hours number")}
	for i, effect := range effects {
		if shown[i] || !forReading {
			t.Columns = append(t.Columns, cli.Column{Name: effect.Name, Number: true})
		}
	}
	t.Columns = append(t.Columns, cli.Columns("total number", "currency")...)
	show := amounts(forReading, m.book.MinorUnit)
	row := func(name string, hours decimal.Decimal, of []rating.Effect, total decimal.Decimal) {
		cells := []string{name, shownHours(forReading, hours)}
		for i, effect := range of {
			if shown[i] || !forReading {
				cells = append(cells, show(effect.Amount))
			}
		}
		t.Rows = append(t.Rows, append(cells, show(total), m.book.Currency))
	}
	hours := decimal.Zero
	for _, inv := range m.invoices {
		name := inv.Tenant
		if forReading {
			name = ask.ShownTenant(usage.KindOwner, name)
		}
		row(name, inv.GPUHours.Decimal, inv.Effects.Ordered(), inv.Total.Decimal)
		hours = hours.Add(inv.GPUHours.Decimal)
	}
	if forReading {
		row("all tenants", hours, effects, m.total())
		t.Rows = append(t.Rows, platformRow(m, len(t.Columns)))
	}
	return t
}

// platformRow is the platform's list value, which isn't billed, in the column of totals.
func platformRow(m simulation, columns int) []string {
	cells := make([]string, columns)
	cells[0], cells[1] = ask.PlatformName+" at list, not billed", shownHours(true, m.platform.GPUHours.Decimal)
	cells[columns-2] = amounts(true, m.book.MinorUnit)(m.platform.List.Add(m.platform.Distribution.Decimal))
	cells[columns-1] = m.book.Currency
	return cells
}

// amounts formats money: exactly, or for reading with the currency's places.
func amounts(forReading bool, places int32) func(decimal.Decimal) string {
	if !forReading {
		return decimal.Decimal.String
	}
	return func(d decimal.Decimal) string { return cli.Grouped(d.RoundBank(places).StringFixed(places)) }
}

func shownHours(forReading bool, hours decimal.Decimal) string {
	if !forReading {
		return hours.String()
	}
	return cli.Grouped(cli.Fixed(hours.String(), 1))
}

// comparisonTable has a column of totals per book, and for each but the first the difference to the first.
func comparisonTable(done []simulation, forReading bool) cli.Table {
	t := cli.Table{Columns: cli.Columns("tenant", "gpu_hours number")}
	for i := range done {
		t.Columns = append(t.Columns, cli.Column{Name: done[i].name, Number: true})
		if i > 0 {
			t.Columns = append(t.Columns, cli.Column{Name: differenceName(i, "difference"), Number: true},
				cli.Column{Name: differenceName(i, "percent"), Number: true})
		}
	}
	t.Columns = append(t.Columns, cli.Columns("currency")...)
	show := amounts(forReading, done[0].book.MinorUnit)
	row := func(name string, hours decimal.Decimal, totals []decimal.Decimal) {
		cells := []string{name, shownHours(forReading, hours)}
		for i, total := range totals {
			cells = append(cells, show(total))
			if i > 0 {
				cells = append(cells, show(total.Sub(totals[0])), percentOf(total.Sub(totals[0]), totals[0]))
			}
		}
		t.Rows = append(t.Rows, append(cells, done[0].book.Currency))
	}
	hours, sums := decimal.Zero, make([]decimal.Decimal, len(done))
	for _, tenant := range tenantsOf(done) {
		totals := make([]decimal.Decimal, len(done))
		held := decimal.Zero
		for i := range done {
			inv := done[i].of(tenant)
			totals[i], sums[i] = inv.Total.Decimal, sums[i].Add(inv.Total.Decimal)
			held = decimal.Max(held, inv.GPUHours.Decimal) // the same in each that has an invoice
		}
		hours = hours.Add(held)
		if forReading {
			tenant = ask.ShownTenant(usage.KindOwner, tenant)
		}
		row(tenant, held, totals)
	}
	if forReading {
		row("all tenants", hours, sums)
	}
	return t
}

// differenceName distinguishes the columns of the third book from those of the second.
func differenceName(book int, what string) string {
	if book == 1 {
		return what
	}
	return what + "_" + strconv.Itoa(book+1)
}

// percentOf is a part in percent to one place; empty if the whole is zero.
func percentOf(part, whole decimal.Decimal) string {
	if whole.IsZero() {
		return ""
	}
	return part.Mul(decimal.NewFromInt(100)).DivRound(whole, 1).StringFixed(1)
}

func tenantsOf(done []simulation) []string {
	names := map[string]bool{}
	for i := range done {
		for j := range done[i].invoices {
			names[done[i].invoices[j].Tenant] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
