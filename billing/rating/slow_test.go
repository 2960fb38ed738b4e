package rating

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gputally/gputally/billing/prices"
)

// The slow model: docs/reference/price-book.md in exact fractions, effect by effect, each from
// the rows anew. It shares the price book's types with the rater and nothing
// else: no helper, no rounding, no order of work, no names of effects, no time
// zones. It also notes what a case made it do, so that a test can tell what
// its cases never tried.

// slowEffects are the effects in the order of R7c.
var slowEffects = []string{
	"list", "profile", "tier", "discount", "fixed_discount", "reservation",
	"idle_surcharge", "minimum", "energy", "distribution", "rounding",
}

type slowInvoice struct {
	hours   *big.Rat
	effects map[string]*big.Rat
	total   *big.Rat
	// projects are list, profile and idle_surcharge by "effect project".
	projects map[string]*big.Rat
}

type slowPlatform struct{ hours, list, rounding, distribution, energyMJ *big.Rat }

type slowRow struct {
	Row
	at    int
	exact *big.Rat // GPU-hours
	q     *big.Rat // to nine places
}

func rat(numerator, denominator int64) *big.Rat { return big.NewRat(numerator, denominator) }
func zero() *big.Rat                            { return new(big.Rat) }
func plus(a, b *big.Rat) *big.Rat               { return new(big.Rat).Add(a, b) }
func minus(a, b *big.Rat) *big.Rat              { return new(big.Rat).Sub(a, b) }
func times(a, b *big.Rat) *big.Rat              { return new(big.Rat).Mul(a, b) }

// addTo adds to an entry that may not be there yet.
func addTo[K comparable](sums map[K]*big.Rat, k K, amount *big.Rat) {
	if sums[k] == nil {
		sums[k] = zero()
	}
	sums[k] = plus(sums[k], amount)
}

// nearest rounds to digits places, ties to even, by looking at both neighbours.
func nearest(x *big.Rat, digits int64) *big.Rat {
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(digits), nil))
	scaled := times(x, scale)
	floor := new(big.Int).Div(scaled.Num(), scaled.Denom())
	below := new(big.Rat).SetInt(floor)
	above := plus(below, rat(1, 1))
	pick := above
	switch minus(scaled, below).Cmp(minus(above, scaled)) {
	case -1:
		pick = below
	case 0:
		if floor.Bit(0) == 0 {
			pick = below
		}
	}
	return new(big.Rat).Quo(pick, scale)
}

type slowModel struct {
	book     *prices.Book
	period   Period
	simulate bool
	hourly   map[time.Time][]slowRow
	counts   map[slowMonth]map[int]int64 // only to be quicker
	noted    map[string]int
}

func newSlow(c testCase) *slowModel {
	s := &slowModel{
		book: c.book, period: c.period, simulate: c.simulate, hourly: map[time.Time][]slowRow{},
		counts: map[slowMonth]map[int]int64{}, noted: map[string]int{},
	}
	sums := map[Row]int64{}
	energy := map[Row]int64{}
	for _, row := range c.rows {
		k := row
		k.SliceMS, k.EnergyMJ = 0, 0
		if _, twice := sums[k]; twice {
			s.note("rows of one key")
		}
		sums[k] += row.SliceMS
		energy[k] += row.EnergyMJ
	}
	for k, ms := range sums {
		row := k
		row.SliceMS, row.EnergyMJ = ms, energy[k]
		exact := rat(ms, int64(row.Slices)*3600000)
		s.hourly[row.Hour] = append(s.hourly[row.Hour], slowRow{row, s.version(row.Hour), exact, nearest(exact, 9)})
	}
	return s
}

func (s *slowModel) note(what string) { s.noted[what]++ }

func (s *slowModel) version(hour time.Time) int {
	best := -1
	for i, v := range s.book.Versions {
		if !v.Effective.After(hour) && (best < 0 || v.Effective.After(s.book.Versions[best].Effective)) {
			best = i
		}
	}
	return best
}

// month is the period in a tenant's zone, else the book's; "" is the platform.
func (s *slowModel) month(tenant string) slowMonth {
	zone := s.book.Zone
	if own, ok := s.book.TenantZones[tenant]; ok {
		zone = own
	}
	return slowMonth{zone.String(), s.period}
}

func (s *slowModel) in(tenant string, hour time.Time) bool {
	return slowZones[s.month(tenant).zone].in(s.period, hour)
}

// of are a tenant's rows of its month, hour by hour.
func (s *slowModel) of(tenant string) []slowRow {
	var rows []slowRow
	for hour, all := range s.hourly {
		for _, row := range all {
			if row.Tenant == tenant && s.in(tenant, hour) {
				rows = append(rows, row)
			}
		}
	}
	slices.SortFunc(rows, func(a, b slowRow) int { return a.Hour.Compare(b.Hour) })
	return rows
}

func (s *slowModel) list(row slowRow) *big.Rat {
	return times(row.q, s.book.Versions[row.at].Models[row.Model].GPUHour.Rat())
}

func (s *slowModel) profilePrice(row slowRow) *big.Rat {
	if price, ok := s.book.Versions[row.at].Models[row.Model].Profiles[row.Profile]; ok {
		return price.Rat()
	}
	return nil
}

func (s *slowModel) profile(row slowRow) *big.Rat {
	price := s.profilePrice(row)
	if price == nil {
		return zero()
	}
	hours := nearest(rat(row.SliceMS, int64(row.ProfileSlices)*3600000), 9)
	return minus(times(hours, price), s.list(row))
}

// costUpTo is what the first x GPU-hours of a month cost by a tiered price.
func (s *slowModel) costUpTo(x *big.Rat, model prices.Model) *big.Rat {
	cost := zero()
	from, rate := zero(), model.GPUHour.Rat()
	for _, tier := range model.Tiers {
		switch tier.Above.Rat().Cmp(x) {
		case -1:
			cost = plus(cost, times(minus(tier.Above.Rat(), from), rate))
			from, rate = tier.Above.Rat(), tier.GPUHour.Rat()
		case 0:
			s.note("a threshold hit exactly")
		}
	}
	return plus(cost, times(minus(x, from), rate))
}

// tiers are the tier effect of each hour of a tenant.
func (s *slowModel) tiers(tenant string) map[time.Time]*big.Rat {
	counts := map[string]*big.Rat{}
	effect := map[time.Time]*big.Rat{}
	last := map[string]int{}
	for _, row := range s.of(tenant) {
		if s.profilePrice(row) != nil {
			continue
		}
		model := s.book.Versions[row.at].Models[row.Model]
		before := counts[row.Model]
		if before == nil {
			before = zero()
		} else if last[row.Model] != row.at && before.Sign() > 0 && len(model.Tiers) > 0 {
			s.note("tiers go on in another version")
		}
		after := plus(before, row.q)
		counts[row.Model], last[row.Model] = after, row.at
		tiered := minus(s.costUpTo(after, model), s.costUpTo(before, model))
		addTo(effect, row.Hour, minus(tiered, times(row.q, model.GPUHour.Rat())))
	}
	return effect
}

// monthly is an amount of terms over the month's hours, prorated.
func (s *slowModel) monthly(tenant string, amount func(prices.Terms) *big.Rat) *big.Rat {
	month := s.month(tenant)
	sum := zero()
	for at, count := range s.inForceIn(month) {
		sum = plus(sum, times(rat(count, 1), amount(s.book.Versions[at].Tenants[tenant])))
	}
	return nearest(times(sum, rat(1, int64(len(month.hours())))), 9)
}

// inForce counts hours by version; those before the book count nowhere.
func (s *slowModel) inForce(hours []time.Time) map[int]int64 {
	counts := map[int]int64{}
	for _, hour := range hours {
		if at := s.version(hour); at >= 0 {
			counts[at]++
		}
	}
	return counts
}

func (s *slowModel) inForceIn(month slowMonth) map[int]int64 {
	if s.counts[month] == nil {
		s.counts[month] = s.inForce(month.hours())
	}
	return s.counts[month]
}

func (s *slowModel) couldSupply(at int, model string, rows []slowRow) bool {
	have, want, platform := zero(), zero(), false
	mixed := map[int]bool{}
	for _, row := range rows {
		if row.Model != model {
			continue
		}
		if row.Tenant == "" {
			platform = true
		}
		if row.Bucket != "unhealthy" && row.Bucket != "unobserved" {
			have = plus(have, row.exact)
			mixed[row.Slices] = true
		}
	}
	for _, terms := range s.book.Versions[at].Tenants {
		for _, r := range terms.Reserved {
			if r.Model == model {
				want = plus(want, r.GPUs.Rat())
			}
		}
	}
	if len(rows) > 0 {
		s.note([]string{"supply fell short", "supply just enough", "supply to spare"}[have.Cmp(want)+1])
		if len(mixed) > 1 {
			s.note("supply of boards with different slices")
		}
	}
	return s.simulate && !platform || have.Cmp(want) >= 0
}

// unused is what a tenant owes for hours in which a reservation was not used.
func (s *slowModel) unused(tenant string, at int, r prices.Reservation, rows []slowRow) *big.Rat {
	unused := r.GPUs.Rat()
	for _, row := range rows {
		if row.Tenant == tenant && row.Model == r.Model {
			unused = minus(unused, row.q)
		}
	}
	if !s.couldSupply(at, r.Model, rows) {
		return zero()
	}
	if unused.Sign() <= 0 {
		s.note("a reservation used up")
		return zero()
	}
	return times(unused, r.UnusedGPUHour.Rat())
}

// reservation looks at the hours with rows one by one, and at those without,
// of which one is like the other, by version.
func (s *slowModel) reservation(tenant string) *big.Rat {
	sum, silent := zero(), maps.Clone(s.inForceIn(s.month(tenant)))
	for hour, rows := range s.hourly {
		at := s.version(hour)
		if at < 0 || !s.in(tenant, hour) {
			continue
		}
		silent[at]--
		for _, r := range s.book.Versions[at].Tenants[tenant].Reserved {
			sum = plus(sum, s.unused(tenant, at, r, rows))
		}
	}
	for at, count := range silent {
		for _, r := range s.book.Versions[at].Tenants[tenant].Reserved {
			sum = plus(sum, times(rat(count, 1), s.unused(tenant, at, r, nil)))
		}
	}
	return sum
}

// refuses tells whether a month must be refused, or may be, for want of a
// price: hours of nobody's month need none.
func (s *slowModel) refuses() (must, may bool) {
	for hour, rows := range s.hourly {
		billed := s.in("", hour)
		for _, row := range rows {
			billed = billed || s.in(row.Tenant, hour)
		}
		for _, row := range rows {
			unpriced := row.at < 0
			if !unpriced {
				_, ok := s.book.Versions[row.at].Models[row.Model]
				unpriced = !ok
			}
			must, may = must || unpriced && billed, may || unpriced
		}
	}
	return must, may
}

// invoices are those of all tenants, and of the platform.
func (s *slowModel) invoices() (map[string]slowInvoice, slowPlatform) {
	shared := map[time.Time]map[string]*big.Rat{}
	tenants := map[string]bool{}
	for hour, rows := range s.hourly {
		shared[hour] = s.given(hour)
		for _, row := range rows {
			if row.Tenant != "" && s.in(row.Tenant, hour) {
				tenants[row.Tenant] = true
			}
		}
	}
	for at, version := range s.book.Versions {
		for tenant, terms := range version.Tenants {
			if !tenants[tenant] && (terms.HasMinimum || len(terms.Reserved) > 0) && s.inForceIn(s.month(tenant))[at] > 0 {
				s.note("an invoice without usage")
				tenants[tenant] = true
			}
		}
	}
	all := map[string]slowInvoice{}
	for tenant := range tenants {
		all[tenant] = s.invoice(tenant, shared)
	}
	return all, s.platform(shared)
}

func (s *slowModel) invoice(tenant string, shared map[time.Time]map[string]*big.Rat) slowInvoice {
	e, projects := map[string]*big.Rat{}, map[string]*big.Rat{}
	for _, effect := range slowEffects {
		e[effect] = zero()
	}
	hours := zero()
	discounted := s.tiers(tenant)
	for _, effect := range discounted {
		addTo(e, "tier", effect)
	}
	energy := map[int]*big.Rat{}
	for _, row := range s.of(tenant) {
		hours = plus(hours, row.q)
		parts := map[string]*big.Rat{"list": s.list(row), "profile": s.profile(row)}
		addTo(discounted, row.Hour, plus(parts["list"], parts["profile"]))
		if row.Bucket == "idle" {
			parts["idle_surcharge"] = times(s.list(row), s.book.Versions[row.at].IdleSurcharge.Rat())
		}
		for effect, amount := range parts {
			addTo(e, effect, amount)
			addTo(projects, effect+" "+row.Project, amount)
		}
		addTo(energy, row.at, rat(row.EnergyMJ, 1))
	}
	for hour, value := range discounted {
		discount := s.book.Versions[s.version(hour)].Tenants[tenant].Discount.Rat()
		e["discount"] = minus(e["discount"], times(discount, value))
	}
	for at, mJ := range energy {
		kWh := times(mJ, rat(1, 3_600_000_000))
		if apart := minus(kWh, nearest(kWh, 9)); apart.Abs(apart).Cmp(times(nano, rat(1, 2))) == 0 {
			s.note("energy half-way at nine places")
		}
		addTo(e, "energy", times(nearest(kWh, 9), s.book.Versions[at].KWh.Rat()))
	}
	for hour, given := range shared {
		if given[tenant] != nil && s.in(tenant, hour) {
			addTo(e, "distribution", given[tenant])
		}
	}
	total := s.settle(tenant, e)
	s.noteInvoice(tenant, e)
	return slowInvoice{hours, e, total, projects}
}

// settle fills in the effects that look at others, and returns the total.
func (s *slowModel) settle(tenant string, e map[string]*big.Rat) *big.Rat {
	fixed := s.monthly(tenant, func(t prices.Terms) *big.Rat { return t.FixedDiscount.Rat() })
	left := plus(plus(e["list"], e["profile"]), plus(e["tier"], e["discount"]))
	if fixed.Cmp(left) > 0 {
		s.note("a fixed discount of more than is left")
		fixed = left
	}
	if left.Sign() > 0 {
		e["fixed_discount"] = minus(zero(), fixed)
	}
	e["reservation"] = s.reservation(tenant)
	due := plus(plus(left, e["fixed_discount"]), plus(e["reservation"], e["idle_surcharge"]))
	minimum := s.monthly(tenant, func(t prices.Terms) *big.Rat { return t.Minimum.Rat() })
	if minimum.Cmp(due) > 0 {
		e["minimum"] = minus(minimum, due)
	}
	sum := zero()
	for _, amount := range e {
		sum = plus(sum, amount)
	}
	total := nearest(sum, int64(s.book.MinorUnit))
	e["rounding"] = minus(total, sum)
	half := new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(s.book.MinorUnit)), nil))
	if times(e["rounding"], rat(2, 1)).Cmp(half) == 0 {
		s.note("a total half-way, rounded up")
	} else if times(e["rounding"], rat(-2, 1)).Cmp(half) == 0 {
		s.note("a total half-way, rounded down")
	}
	return total
}

// platform is the platform's account, by the book's zone.
func (s *slowModel) platform(shared map[time.Time]map[string]*big.Rat) slowPlatform {
	p := slowPlatform{zero(), zero(), zero(), zero(), zero()}
	for hour, rows := range s.hourly {
		if !s.in("", hour) {
			continue
		}
		for _, row := range rows {
			rate := s.book.Versions[row.at].Models[row.Model].GPUHour.Rat()
			p.rounding = plus(p.rounding, times(minus(row.exact, row.q), rate))
			if row.Tenant == "" {
				p.hours, p.list = plus(p.hours, row.q), plus(p.list, s.list(row))
				p.energyMJ = plus(p.energyMJ, rat(row.EnergyMJ, 1))
			}
		}
		for _, amount := range shared[hour] {
			p.distribution = minus(p.distribution, amount)
		}
	}
	return p
}

// noteInvoice notes what an invoice consists of.
func (s *slowModel) noteInvoice(tenant string, e map[string]*big.Rat) {
	m := s.month(tenant)
	for effect, amount := range e {
		if amount.Sign() != 0 {
			s.note("effect " + effect)
		}
	}
	s.note(fmt.Sprintf("minor unit %d", s.book.MinorUnit))
	for _, row := range s.of(tenant) {
		s.noteRow(m, row)
	}
	models, versions := map[string]bool{}, map[int]bool{}
	for _, row := range s.of(tenant) {
		models[row.Model], versions[row.at] = true, true
		if s.in("", row.Hour) != s.in(tenant, row.Hour) && e["distribution"].Sign() != 0 {
			s.note("distribution where the months of tenant and platform differ")
		}
	}
	if len(models) > 1 {
		s.note("several models")
	}
	if len(versions) > 1 {
		s.note("several versions")
	}
}

// given is what each tenant gets of an hour's platform time; nil where nobody
// gets any.
func (s *slowModel) given(hour time.Time) map[string]*big.Rat {
	at := s.version(hour)
	if at < 0 || !s.book.Versions[at].Proportional {
		return nil
	}
	pool, total := zero(), zero()
	claims := map[string]*big.Rat{}
	for _, row := range s.hourly[hour] {
		if row.Bucket == "free" || row.Bucket == "stranded" {
			pool = plus(pool, s.list(row))
		}
		if row.Tenant != "" {
			addTo(claims, row.Tenant, s.list(row))
			total = plus(total, s.list(row))
		}
	}
	if rounded := nearest(pool, 9); rounded.Cmp(pool) != 0 {
		s.note("a pool rounded to nine places")
		pool = rounded
	}
	switch {
	case pool.Sign() == 0:
		return nil
	case total.Sign() == 0:
		s.note("a pool without owners")
		return nil
	}
	return s.divide(pool, total, claims)
}

var nano = rat(1, 1_000_000_000)

// divide gives whole units of 1e-9 by largest remainder, ties by name.
func (s *slowModel) divide(pool, total *big.Rat, claims map[string]*big.Rat) map[string]*big.Rat {
	given, missing, left := map[string]*big.Rat{}, map[string]*big.Rat{}, pool
	var tenants []string
	for tenant, claim := range claims {
		exact := new(big.Rat).Quo(times(pool, claim), total)
		units := new(big.Rat).Quo(exact, nano)
		given[tenant] = times(new(big.Rat).SetInt(new(big.Int).Div(units.Num(), units.Denom())), nano)
		missing[tenant] = minus(exact, given[tenant])
		left = minus(left, given[tenant])
		tenants = append(tenants, tenant)
	}
	slices.Sort(tenants)
	for left.Sign() > 0 {
		best, tied := "", false
		for _, tenant := range tenants {
			switch {
			case missing[tenant] == nil:
			case best == "" || missing[tenant].Cmp(missing[best]) > 0:
				best, tied = tenant, false
			case missing[tenant].Cmp(missing[best]) == 0:
				tied = true
			}
		}
		given[best] = plus(given[best], nano)
		missing[best] = nil
		if left = minus(left, nano); left.Sign() == 0 && tied {
			s.note("a tie of distribution told by names")
		}
	}
	return given
}

// A zone of the slow model: minutes east of UTC, and when summer time begins
// and ends, by rule. It asks no time-zone database, so that a wrong use of one
// cannot hide; the rules are those of the years 2023 to 2030.
type slowZone struct {
	standard, summer int
	begins, ends     *sunday
}

// sunday is an instant of every year: minutes of UTC after (or before) the
// midnight that begins the first Sunday of a month on or after a day.
type sunday struct {
	month   time.Month
	day     int
	minutes int
}

func (s *sunday) of(year int) time.Time {
	at := time.Date(year, s.month, s.day, 0, 0, 0, 0, time.UTC)
	for at.Weekday() != time.Sunday {
		at = at.AddDate(0, 0, 1)
	}
	return at.Add(time.Duration(s.minutes) * time.Minute)
}

var (
	europeBegins, europeEnds   = &sunday{time.March, 25, 60}, &sunday{time.October, 25, 60}
	zealandBegins, zealandEnds = &sunday{time.September, 24, -600}, &sunday{time.April, 1, -600}
)

var slowZones = map[string]slowZone{
	"UTC":                 {},
	"Europe/London":       {0, 60, europeBegins, europeEnds},
	"Europe/Berlin":       {60, 120, europeBegins, europeEnds},
	"America/New_York":    {-300, -240, &sunday{time.March, 8, 420}, &sunday{time.November, 1, 360}},
	"America/St_Johns":    {-210, -150, &sunday{time.March, 8, 330}, &sunday{time.November, 1, 270}},
	"America/Santiago":    {-240, -180, &sunday{time.September, 2, 240}, &sunday{time.April, 2, 180}},
	"Australia/Lord_Howe": {630, 660, &sunday{time.October, 1, -510}, &sunday{time.April, 1, -540}},
	"Australia/Adelaide":  {570, 630, &sunday{time.October, 1, -450}, &sunday{time.April, 1, -450}},
	"Pacific/Chatham":     {765, 825, zealandBegins, zealandEnds},
	"Pacific/Auckland":    {720, 780, zealandBegins, zealandEnds},
	"Asia/Kolkata":        {standard: 330},
	"Asia/Kathmandu":      {standard: 345},
	"Asia/Tehran":         {standard: 210},
	"Australia/Eucla":     {standard: 525},
	"Pacific/Marquesas":   {standard: -570},
	"Pacific/Kiritimati":  {standard: 840},
	"Pacific/Niue":        {standard: -660},
}

func (z slowZone) offset(at time.Time) time.Duration {
	minutes := z.standard
	if z.begins != nil {
		begins, ends := z.begins.of(at.Year()), z.ends.of(at.Year())
		after, before := !at.Before(begins), at.Before(ends)
		if begins.Before(ends) && after && before || ends.Before(begins) && (after || before) {
			minutes = z.summer
		}
	}
	return time.Duration(minutes) * time.Minute
}

func (z slowZone) in(p Period, at time.Time) bool {
	local := at.Add(z.offset(at))
	return local.Year() == p.Year && local.Month() == p.Month
}

// slowMonth is a period in a zone.
type slowMonth struct {
	zone   string
	period Period
}

// slowHours remembers the hours of months, only to be quicker.
var slowHours sync.Map

func (m slowMonth) hours() []time.Time {
	if hours, done := slowHours.Load(m); done {
		return hours.([]time.Time)
	}
	start := time.Date(m.period.Year, m.period.Month, 1, 0, 0, 0, 0, time.UTC)
	var hours []time.Time
	for h := start.Add(-48 * time.Hour); h.Before(start.Add(34 * 24 * time.Hour)); h = h.Add(time.Hour) {
		if slowZones[m.zone].in(m.period, h) {
			hours = append(hours, h)
		}
	}
	slowHours.Store(m, hours)
	return hours
}

// change is how many minutes the clocks of a zone go forward in a month, less
// those they go back.
func (m slowMonth) change() int {
	hours, zone := m.hours(), slowZones[m.zone]
	return int((zone.offset(hours[len(hours)-1]) - zone.offset(hours[0])) / time.Minute)
}

func TestSlowZonesAreThoseOfTheDatabase(t *testing.T) {
	for name, zone := range slowZones {
		location := load(name)
		for at := time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2031; at = at.Add(30 * time.Minute) {
			if _, want := at.In(location).Zone(); int(zone.offset(at)/time.Second) != want {
				t.Fatalf("%s at %s: %s, the database has %d s", name, at, zone.offset(at), want)
			}
		}
	}
}

// The length of a month, worked out by hand: an hour belongs to it that starts
// in it, so half an hour of summer time moves an hour or none.
func TestHoursOfMonthsWithSummerTime(t *testing.T) {
	for _, c := range []struct {
		zone        string
		period      Period
		hours       int
		first, last string
	}{
		{"Europe/Berlin", Period{2026, 3}, 743, "2026-02-28T23:00:00Z", "2026-03-31T21:00:00Z"},
		{"Europe/Berlin", Period{2026, 10}, 745, "2026-09-30T22:00:00Z", "2026-10-31T22:00:00Z"},
		{"America/St_Johns", Period{2026, 3}, 743, "2026-03-01T04:00:00Z", "2026-04-01T02:00:00Z"},
		{"America/St_Johns", Period{2026, 11}, 721, "2026-11-01T03:00:00Z", "2026-12-01T03:00:00Z"},
		{"Asia/Kolkata", Period{2026, 3}, 744, "2026-02-28T19:00:00Z", "2026-03-31T18:00:00Z"},
		{"Asia/Kathmandu", Period{2026, 3}, 744, "2026-02-28T19:00:00Z", "2026-03-31T18:00:00Z"},
		{"Australia/Lord_Howe", Period{2026, 4}, 721, "2026-03-31T13:00:00Z", "2026-04-30T13:00:00Z"},
		{"Australia/Lord_Howe", Period{2026, 10}, 743, "2026-09-30T14:00:00Z", "2026-10-31T12:00:00Z"},
		{"Pacific/Chatham", Period{2026, 4}, 721, "2026-03-31T11:00:00Z", "2026-04-30T11:00:00Z"},
		{"Pacific/Chatham", Period{2026, 9}, 719, "2026-08-31T12:00:00Z", "2026-09-30T10:00:00Z"},
		{"America/Santiago", Period{2026, 9}, 719, "2026-09-01T04:00:00Z", "2026-10-01T02:00:00Z"},
	} {
		for who, hours := range map[string][]time.Time{
			"rater": c.period.Hours(load(c.zone)), "slow model": slowMonth{c.zone, c.period}.hours(),
		} {
			first, last := hours[0].Format(time.RFC3339), hours[len(hours)-1].Format(time.RFC3339)
			if len(hours) != c.hours || first != c.first || last != c.last {
				t.Errorf("%s, %s in %s: %d hours from %s to %s, want %d from %s to %s",
					who, c.period, c.zone, len(hours), first, last, c.hours, c.first, c.last)
			}
		}
	}
}
