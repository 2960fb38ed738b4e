package rating

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
)

// testCase is a month to rate.
type testCase struct {
	book     *prices.Book
	period   Period
	rows     []Row
	simulate bool
}

// generator makes cases, all of a case from its seed. Random figures hardly
// ever meet an edge, so half the cases are round: whole GPU-hours, whole
// thresholds and reservations, prices that end half-way; and hours lie by
// preference where months, versions and clocks change.
type generator struct {
	*rand.Rand
	round bool
	hours []time.Time // edges, then any
	zones []string
}

func newGenerator(seed uint64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1))}
	g.round = g.chance(50)
	return g
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, from []T) T { return from[g.IntN(len(from))] }

// amount is a decimal below max÷100 of up to places places.
func (g *generator) amount(max, places int) decimal.Decimal {
	switch {
	case g.round:
		return decimal.New(int64(g.IntN(max)), -3)
	case g.chance(5):
		return decimal.New(g.Int64N(1_000_000_000_000), -12)
	}
	return decimal.New(int64(g.IntN(max)), -int32(g.IntN(places+1)))
}

func (g *generator) share() decimal.Decimal {
	if g.chance(40) {
		return decimal.New(int64(g.IntN(2)), 0)
	}
	return decimal.New(int64(g.IntN(10001)), -4)
}

var (
	genModels     = []string{"H100", "A30", "T4"}
	genSlices     = map[string]int{"H100": 7, "A30": 4, "T4": 1}
	genTenants    = []string{"a", "b", "ä", "B", "unassigned"}
	genProfiles   = []string{"1g", "2g", "3g"}
	genMinorUnits = []int32{0, 1, 2, 3, 4, 9}
	// Months in which clocks change somewhere, on their first day too (2023,
	// 2026, 2029), and the ends of years and Februaries.
	genPeriods = []Period{
		{2026, 3},
		{2026, 4},
		{2026, 9},
		{2026, 10},
		{2026, 11},
		{2023, 10},
		{2029, 4},
		{2029, 3},
		{2028, 2},
		{2026, 2},
		{2025, 12},
		{2026, 1},
		{2026, 7},
	}
	genZones = func() []string {
		var names []string
		for name := range slowZones {
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}()
	genLocations = func() map[string]*time.Location {
		all := map[string]*time.Location{}
		for _, name := range genZones {
			all[name] = load(name)
		}
		return all
	}()
)

func load(name string) *time.Location {
	zone, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return zone
}

func (g *generator) testCase() testCase {
	c := testCase{period: pick(g, genPeriods), simulate: g.chance(20)}
	book := &prices.Book{Name: "random", Currency: "USD", MinorUnit: pick(g, genMinorUnits), TenantZones: map[string]*time.Location{}}
	book.Zone = g.zone()
	for _, tenant := range genTenants {
		if g.chance(20) {
			book.TenantZones[tenant] = g.zone()
		}
	}
	g.edges(c.period)
	g.versions(book, c.period)
	c.book, c.rows = book, g.rows(c.period)
	return c
}

// priceableCase is a case in which nothing lacks a price.
func priceableCase(seed uint64) testCase {
	for ; ; seed += 1_000_000_000 {
		c := newGenerator(seed).testCase()
		if _, unpriced := newSlow(c).refuses(); !unpriced {
			return c
		}
	}
}

func (g *generator) zone() *time.Location {
	name := pick(g, genZones)
	g.zones = append(g.zones, name)
	return genLocations[name]
}

// edges are hours where the months of this case's zones begin and end, and
// where their clocks change.
func (g *generator) edges(p Period) {
	start := time.Date(p.Year, p.Month, 1, 0, 0, 0, 0, time.UTC)
	for range 2 {
		g.hours = append(g.hours, start.Add(time.Duration(g.IntN(36)-18)*time.Hour),
			start.AddDate(0, 1, 0).Add(time.Duration(g.IntN(36)-18)*time.Hour))
	}
	for _, name := range g.zones {
		hours := slowMonth{name, p}.hours()
		for _, edge := range []time.Time{hours[0], hours[len(hours)-1]} {
			g.hours = append(g.hours, edge, edge.Add(time.Duration(g.IntN(5)-2)*time.Hour))
		}
		if zone := slowZones[name]; zone.begins != nil {
			for _, change := range []*sunday{zone.begins, zone.ends} {
				if at := change.of(p.Year).Truncate(time.Hour); zone.in(p, at) {
					g.hours = append(g.hours, at.Add(time.Duration(g.IntN(3)-1)*time.Hour))
				}
			}
		}
	}
}

// versions begin long before, at an edge, or anywhere in and around the month.
func (g *generator) versions(book *prices.Book, p Period) {
	from, to := p.Range()
	anywhere := func() time.Time {
		if g.chance(50) {
			return pick(g, g.hours)
		}
		return from.AddDate(0, 0, -20).Add(time.Duration(g.IntN(24*int(to.Sub(from)/(24*time.Hour)+30))) * time.Hour)
	}
	at := from.AddDate(-1, 0, 0)
	if g.chance(3) {
		at = anywhere()
	}
	starts := []time.Time{at}
	for range g.IntN(3) {
		if next := anywhere(); next.After(at) && !slices.ContainsFunc(starts, next.Equal) {
			starts = append(starts, next)
			g.hours = append(g.hours, next, next.Add(-time.Hour))
		}
	}
	slices.SortFunc(starts, time.Time.Compare)
	for _, start := range starts {
		book.Versions = append(book.Versions, g.version(start))
	}
}

func (g *generator) version(at time.Time) prices.Version {
	v := prices.Version{
		Effective: at, Models: map[string]prices.Model{}, Tenants: map[string]prices.Terms{},
		Proportional: g.chance(50),
	}
	if g.chance(40) {
		v.KWh = g.amount(100, 3)
	}
	if g.chance(40) {
		v.IdleSurcharge = g.share()
	}
	for _, tenant := range genTenants[:4] {
		if g.chance(40) {
			v.Tenants[tenant] = g.terms()
		}
	}
	for _, name := range genModels {
		v.Models[name] = g.model()
	}
	if unpriced := pick(g, genModels); g.chance(2) && !reserves(v, unpriced) {
		delete(v.Models, unpriced)
	}
	return v
}

func reserves(v prices.Version, model string) bool {
	for _, terms := range v.Tenants {
		if slices.ContainsFunc(terms.Reserved, func(r prices.Reservation) bool { return r.Model == model }) {
			return true
		}
	}
	return false
}

func (g *generator) model() prices.Model {
	model := prices.Model{GPUHour: g.amount(5000, 3), Profiles: map[string]decimal.Decimal{}}
	if g.chance(5) {
		model.GPUHour = decimal.Zero
	}
	for range g.IntN(3) {
		model.Profiles[pick(g, genProfiles)] = g.amount(1000, 3)
	}
	above := decimal.New(int64(g.IntN(2)), 0)
	for range g.IntN(4) {
		if g.round {
			above = above.Add(decimal.New(1+int64(g.IntN(3)), 0))
		} else {
			above = above.Add(g.amount(900, 2)).Add(decimal.New(1, -3))
		}
		model.Tiers = append(model.Tiers, prices.Tier{Above: above, GPUHour: g.amount(5000, 3)})
	}
	return model
}

func (g *generator) terms() prices.Terms {
	terms := prices.Terms{Discount: g.share()}
	if g.chance(40) {
		terms.FixedDiscount = g.amount(30000, 2)
	}
	if g.chance(30) {
		terms.Minimum, terms.HasMinimum = g.amount(30000, 2), true
	}
	if g.chance(35) {
		terms.Reserved = []prices.Reservation{} // an empty list doesn't count
		models := slices.Clone(genModels)
		for range g.IntN(3) {
			at := g.IntN(len(models))
			terms.Reserved = append(terms.Reserved, prices.Reservation{Model: models[at], GPUs: g.gpus(), UnusedGPUHour: g.amount(3000, 2)})
			models = slices.Delete(models, at, at+1)
		}
	}
	return terms
}

func (g *generator) gpus() decimal.Decimal {
	if g.round {
		return decimal.New(int64(g.IntN(4)), 0)
	}
	return decimal.New(int64(g.IntN(400)), -int32(g.IntN(3)))
}

// rows are few, in few hours, so that they meet each other.
func (g *generator) rows(p Period) []Row {
	from, to := p.Range()
	hours := make([]time.Time, 1+g.IntN(4))
	for i := range hours {
		hours[i] = from.Add(time.Duration(g.IntN(int(to.Sub(from)/time.Hour))) * time.Hour)
		if g.chance(60) {
			hours[i] = pick(g, g.hours)
		}
	}
	count := g.IntN(10)
	if g.chance(10) {
		count = g.IntN(40)
	}
	boards := map[Row]int{}
	var rows []Row
	for range count {
		if len(rows) == 0 || g.chance(70) {
			rows = append(rows, g.row(boards, pick(g, hours)))
			continue
		}
		rows = append(rows, g.echo(boards, pick(g, rows)))
	}
	return rows
}

// echo is a row like another: of the same key, or of another tenant, hour or
// project, with the same figures.
func (g *generator) echo(boards map[Row]int, row Row) Row {
	switch g.IntN(4) {
	case 0:
		row.SliceMS = g.sliceMS(row.Slices)
	case 1:
		row.Hour = row.Hour.Add(time.Duration(g.IntN(5)-2) * time.Hour)
	case 2:
		if row.Tenant != "" {
			row.Tenant = pick(g, genTenants)
		}
	case 3:
		row.Project += "x"
	}
	return g.board(boards, row)
}

// board sets the slices of a row's key: all of a key agree, and mostly all of
// a model. A factor is what stating several kinds of boards in one number
// makes of them, or a pool's thousandths.
func (g *generator) board(boards map[Row]int, row Row) Row {
	k := row
	k.SliceMS, k.EnergyMJ, k.Slices, k.ProfileSlices = 0, 0, 0, 0
	factor := boards[k]
	if factor == 0 {
		factor = 1
		if g.chance(25) {
			factor = pick(g, []int{2, 4, 8, 1000, 4000})
		}
		boards[k] = factor
	}
	ofKey := genSlices[row.Model] * factor
	if row.Slices != 0 && row.Slices != ofKey {
		row.SliceMS = min(row.SliceMS/int64(row.Slices)*int64(ofKey), maxSliceMS/50)
	}
	row.Slices, row.ProfileSlices = ofKey, 0
	if row.Profile != "" {
		row.ProfileSlices = (slices.Index(genProfiles, row.Profile) + 1) * factor
	}
	return row
}

func (g *generator) row(boards map[Row]int, hour time.Time) Row {
	row := Row{Hour: hour, Model: pick(g, genModels)}
	if g.chance(40) {
		row.Bucket = pick(g, []string{"free", "free", "stranded", "unhealthy", "unobserved"})
	} else {
		row.Tenant, row.Bucket = pick(g, genTenants), pick(g, []string{"active", "idle", "unproven"})
		row.Project = pick(g, []string{"", "p"})
		if g.chance(40) {
			row.Profile = pick(g, genProfiles)
		}
	}
	row = g.board(boards, row)
	row.SliceMS, row.EnergyMJ = g.sliceMS(row.Slices), g.energyMJ()
	return row
}

func (g *generator) sliceMS(slices int) int64 {
	switch percent := g.IntN(100); {
	case percent < 3:
		return 0
	case percent < 4:
		return maxSliceMS/50 - int64(g.IntN(1000))
	case percent < 10:
		return int64(g.IntN(100)) // where rounding tells
	case g.round:
		return int64(1+g.IntN(4)) * int64(slices) * 3_600_000 / int64(1+g.IntN(2))
	}
	return g.Int64N(8 * int64(slices) * 3_600_000)
}

func (g *generator) energyMJ() int64 {
	switch percent := g.IntN(100); {
	case percent < 30:
		return 0
	case percent < 40:
		return int64(g.IntN(40)) * 9
	case percent < 50:
		return -g.Int64N(10_000_000_000)
	case percent < 52:
		return maxEnergyMJ/50 - int64(g.IntN(1000))
	}
	return g.Int64N(10_000_000_000)
}
