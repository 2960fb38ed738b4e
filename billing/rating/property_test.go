package rating

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gpuledger/gpuledger/billing/prices"
)

// cases is the number of random months of every test run.
const cases = 2000

type generator struct{ *rand.Rand }

func (g generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g generator, from []T) T { return from[g.IntN(len(from))] }

func (g generator) amount(max, places int) decimal.Decimal {
	return decimal.New(int64(g.IntN(max)), -int32(g.IntN(places+1)))
}

var (
	genModels   = []string{"H100", "A30", "T4"}
	genSlices   = map[string]int{"H100": 7, "A30": 4, "T4": 1}
	genTenants  = []string{"a", "b", "ä", "unassigned"}
	genProfiles = []string{"1g", "2g", "3g"}
)

func (g generator) book() *prices.Book {
	zones := []string{"UTC", "Europe/Berlin", "Asia/Kolkata", "Pacific/Kiritimati", "America/New_York"}
	load := func() *time.Location {
		zone, err := time.LoadLocation(pick(g, zones))
		if err != nil {
			panic(err)
		}
		return zone
	}
	book := &prices.Book{
		Name: "random", Currency: "USD", MinorUnit: pick(g, []int32{0, 2, 3}), Zone: load(),
		TenantZones: map[string]*time.Location{},
	}
	for _, tenant := range genTenants {
		if g.chance(20) {
			book.TenantZones[tenant] = load()
		}
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 1 + g.IntN(3) {
		if i > 0 {
			at = time.Date(2026, 3, 1+10*(i-1)+g.IntN(8), g.IntN(24), 0, 0, 0, time.UTC)
		}
		book.Versions = append(book.Versions, g.version(at))
	}
	return book
}

func (g generator) version(at time.Time) prices.Version {
	v := prices.Version{
		Effective: at, Models: map[string]prices.Model{}, Tenants: map[string]prices.Terms{},
		Proportional: g.chance(50),
	}
	if g.chance(50) {
		v.KWh = g.amount(100, 3)
	}
	if g.chance(50) {
		v.IdleSurcharge = decimal.New(int64(g.IntN(101)), -2)
	}
	for _, name := range genModels {
		model := prices.Model{GPUHour: g.amount(500, 3), Profiles: map[string]decimal.Decimal{}}
		if g.chance(30) {
			model.Profiles[pick(g, genProfiles)] = g.amount(100, 3)
		}
		above := decimal.Zero
		for range g.IntN(3) {
			above = above.Add(g.amount(9, 2)).Add(decimal.New(1, -3))
			model.Tiers = append(model.Tiers, prices.Tier{Above: above, GPUHour: g.amount(500, 3)})
		}
		v.Models[name] = model
	}
	for _, tenant := range genTenants[:3] {
		if g.chance(40) {
			v.Tenants[tenant] = g.terms()
		}
	}
	return v
}

func (g generator) terms() prices.Terms {
	terms := prices.Terms{Discount: decimal.New(int64(g.IntN(101)), -2)}
	if g.chance(50) {
		terms.FixedDiscount = g.amount(3000, 2)
	}
	if g.chance(40) {
		terms.Minimum, terms.HasMinimum = g.amount(3000, 2), true
	}
	if g.chance(30) {
		terms.Reserved = []prices.Reservation{{Model: pick(g, genModels), GPUs: g.amount(4, 1), UnusedGPUHour: g.amount(300, 2)}}
	}
	return terms
}

func (g generator) rows() []Row {
	var rows []Row
	start := time.Date(2026, 2, 28, 0, 0, 0, 0, time.UTC)
	hours := make([]time.Time, 6)
	for i := range hours {
		hours[i] = start.Add(time.Duration(g.IntN(33*24)) * time.Hour)
		if g.chance(30) { // where zones disagree
			hours[i] = start.Add(time.Duration(g.IntN(40)) * time.Hour)
		}
	}
	for range g.IntN(25) {
		rows = append(rows, g.row(pick(g, hours)))
	}
	return rows
}

func (g generator) row(hour time.Time) Row {
	row := Row{Hour: hour, Model: pick(g, genModels), SliceMS: g.Int64N(40_000_000)}
	row.Slices = genSlices[row.Model]
	if g.chance(30) {
		row.SliceMS = int64(g.IntN(40)) * 3_600_000
	}
	if g.chance(40) {
		row.Tenant, row.Bucket = "", pick(g, []string{"free", "stranded", "unhealthy", "unobserved"})
		return row
	}
	row.Tenant, row.Bucket = pick(g, genTenants), pick(g, []string{"active", "idle", "unproven"})
	row.Project = pick(g, []string{"", "p"})
	row.EnergyMJ = g.Int64N(10_000_000_000)
	if g.chance(40) {
		at := g.IntN(len(genProfiles))
		row.Profile, row.ProfileSlices = genProfiles[at], at+1
	}
	return row
}

func TestRaterEqualsTheSlowModel(t *testing.T) {
	invoices, nonzero := 0, map[string]int{}
	for seed := range uint64(cases) {
		g := generator{rand.New(rand.NewPCG(seed, 1))}
		book, rows, simulate := g.book(), g.rows(), g.chance(50)
		got, err := Rate(book, Period{2026, 3}, rows, Options{Simulate: simulate})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		want := newSlow(book, "2026-03", rows).invoices(simulate)
		if len(want) != len(got.Invoices) {
			t.Fatalf("seed %d: %d invoices, want %d", seed, len(got.Invoices), len(want))
		}
		for _, invoice := range got.Invoices {
			invoices++
			if diff := differ(want[invoice.Tenant], invoice, nonzero); diff != "" {
				t.Fatalf("seed %d, tenant %q: %s", seed, invoice.Tenant, diff)
			}
		}
		if err := Check(got); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	for _, effect := range (Effects{}).Ordered() {
		if nonzero[effect.Name] < cases/20 {
			t.Errorf("effect %s was tried only %d times in %d invoices", effect.Name, nonzero[effect.Name], invoices)
		}
	}
}

func differ(want slowInvoice, got Invoice, nonzero map[string]int) string {
	if want.hours == nil || got.GPUHours.Rat().Cmp(want.hours) != 0 {
		return fmt.Sprintf("gpu_hours = %s, want %v", got.GPUHours, want.hours)
	}
	for _, effect := range got.Effects.Ordered() {
		if effect.Amount.Rat().Cmp(want.effects[effect.Name]) != 0 {
			return fmt.Sprintf("%s = %s, want %s", effect.Name, effect.Amount, want.effects[effect.Name].FloatString(12))
		}
		if !effect.Amount.IsZero() {
			nonzero[effect.Name]++
		}
	}
	if got.Total.Rat().Cmp(want.total) != 0 {
		return fmt.Sprintf("total = %s, want %s", got.Total, want.total.FloatString(9))
	}
	return ""
}

func TestOrderAndSplittingOfRowsDoNotMatter(t *testing.T) {
	for seed := range uint64(300) {
		g := generator{rand.New(rand.NewPCG(seed, 2))}
		book, rows := g.book(), g.rows()
		want, err := Rate(book, Period{2026, 3}, rows, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var pieces []Row
		for _, row := range rows {
			first, second := row, row
			first.SliceMS, first.EnergyMJ = row.SliceMS/3, 0
			second.SliceMS = row.SliceMS - first.SliceMS
			pieces = append(pieces, second, first)
		}
		g.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
		got, err := Rate(book, Period{2026, 3}, pieces, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i, invoice := range got.Invoices {
			if fmt.Sprint(invoice) != fmt.Sprint(want.Invoices[i]) {
				t.Fatalf("seed %d: invoice\n%v, want\n%v", seed, invoice, want.Invoices[i])
			}
		}
	}
}

func TestListValueOfAnyHoursIsThatOfCapacity(t *testing.T) {
	for seed := range uint64(300) {
		g := generator{rand.New(rand.NewPCG(seed, 3))}
		book := g.book()
		value := NewListValue(book)
		for range 5 {
			row := g.row(time.Date(2026, 3, 1+g.IntN(30), g.IntN(24), 0, 0, 0, time.UTC))
			if err := value.AddRows([]Row{row}); err != nil {
				t.Fatal(err)
			}
			if err := value.AddCapacity(Capacity{row.Hour, row.Model, row.Slices, row.SliceMS}); err != nil {
				t.Fatal(err)
			}
		}
		if err := value.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
