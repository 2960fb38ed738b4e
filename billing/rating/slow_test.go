package rating

import (
	"math/big"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/billing/prices"
)

// The slow model: prices.md in exact fractions, effect by effect, each from
// the rows anew. It shares the price book's types with the rater and nothing
// else: no helper, no rounding, no order of work.

type slowInvoice struct {
	hours   *big.Rat
	effects map[string]*big.Rat
	total   *big.Rat
}

type slowRow struct {
	Row
	at int
	q  *big.Rat
}

func rat(numerator, denominator int64) *big.Rat { return big.NewRat(numerator, denominator) }
func zero() *big.Rat                            { return new(big.Rat) }
func plus(a, b *big.Rat) *big.Rat               { return new(big.Rat).Add(a, b) }
func minus(a, b *big.Rat) *big.Rat              { return new(big.Rat).Sub(a, b) }
func times(a, b *big.Rat) *big.Rat              { return new(big.Rat).Mul(a, b) }

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

// slowHours remembers the hours of a period and zone, only to be quicker.
var slowHours = map[string][]time.Time{}

type slowModel struct {
	book   *prices.Book
	period string
	rows   []slowRow
	hourly map[time.Time][]slowRow // the rows again, only to be quicker
}

func newSlow(book *prices.Book, period string, rows []Row) *slowModel {
	s := &slowModel{book: book, period: period, hourly: map[time.Time][]slowRow{}}
	sums := map[Row]int64{}
	energy := map[Row]int64{}
	for _, row := range rows {
		k := row
		k.SliceMS, k.EnergyMJ = 0, 0
		sums[k] += row.SliceMS
		energy[k] += row.EnergyMJ
	}
	for k, ms := range sums {
		row := k
		row.SliceMS, row.EnergyMJ = ms, energy[k]
		q := nearest(rat(ms, int64(row.Slices)*3600000), 9)
		s.rows = append(s.rows, slowRow{row, s.version(row.Hour), q})
		s.hourly[row.Hour] = append(s.hourly[row.Hour], slowRow{row, s.version(row.Hour), q})
	}
	return s
}

func (s *slowModel) version(hour time.Time) int {
	best := -1
	for i, v := range s.book.Versions {
		if !v.Effective.After(hour) && (best < 0 || v.Effective.After(s.book.Versions[best].Effective)) {
			best = i
		}
	}
	return best
}

func (s *slowModel) zone(tenant string) *time.Location {
	if own, ok := s.book.TenantZones[tenant]; ok {
		return own
	}
	return s.book.Zone
}

func (s *slowModel) in(tenant string, hour time.Time) bool {
	return hour.In(s.zone(tenant)).Format("2006-01") == s.period
}

func (s *slowModel) hoursOf(tenant string) []time.Time {
	name := s.period + s.zone(tenant).String()
	if hours, done := slowHours[name]; done {
		return hours
	}
	start, _ := time.Parse("2006-01", s.period)
	var hours []time.Time
	for h := start.Add(-48 * time.Hour); h.Before(start.Add(34 * 24 * time.Hour)); h = h.Add(time.Hour) {
		if s.in(tenant, h) {
			hours = append(hours, h)
		}
	}
	slowHours[name] = hours
	return hours
}

func (s *slowModel) of(tenant string) []slowRow {
	var rows []slowRow
	for _, row := range s.rows {
		if row.Tenant == tenant && s.in(tenant, row.Hour) {
			rows = append(rows, row)
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
func costUpTo(x *big.Rat, model prices.Model) *big.Rat {
	cost := zero()
	from, rate := zero(), model.GPUHour.Rat()
	for _, tier := range model.Tiers {
		if tier.Above.Rat().Cmp(x) < 0 {
			cost = plus(cost, times(minus(tier.Above.Rat(), from), rate))
			from, rate = tier.Above.Rat(), tier.GPUHour.Rat()
		}
	}
	return plus(cost, times(minus(x, from), rate))
}

// tiers are the tier effect of each hour of a tenant.
func (s *slowModel) tiers(tenant string) map[time.Time]*big.Rat {
	counts := map[string]*big.Rat{}
	effect := map[time.Time]*big.Rat{}
	for _, row := range s.of(tenant) {
		if s.profilePrice(row) != nil {
			continue
		}
		model := s.book.Versions[row.at].Models[row.Model]
		before := counts[row.Model]
		if before == nil {
			before = zero()
		}
		after := plus(before, row.q)
		counts[row.Model] = after
		tiered := minus(costUpTo(after, model), costUpTo(before, model))
		if effect[row.Hour] == nil {
			effect[row.Hour] = zero()
		}
		effect[row.Hour] = plus(effect[row.Hour], minus(tiered, times(row.q, model.GPUHour.Rat())))
	}
	return effect
}

func (s *slowModel) monthly(tenant string, amount func(prices.Terms) *big.Rat) *big.Rat {
	hours := s.hoursOf(tenant)
	counts := make([]int64, len(s.book.Versions))
	for _, hour := range hours {
		if at := s.version(hour); at >= 0 {
			counts[at]++
		}
	}
	sum := zero()
	for at, count := range counts {
		sum = plus(sum, times(rat(count, 1), amount(s.book.Versions[at].Tenants[tenant])))
	}
	return nearest(times(sum, rat(1, int64(len(hours)))), 9)
}

func (s *slowModel) at(hour time.Time) []slowRow { return s.hourly[hour] }

func (s *slowModel) couldSupply(hour time.Time, model string, simulate bool) bool {
	have, want, platform := zero(), zero(), false
	for _, row := range s.at(hour) {
		if row.Model != model {
			continue
		}
		if row.Tenant == "" {
			platform = true
		}
		if row.Bucket != "unhealthy" && row.Bucket != "unobserved" {
			have = plus(have, rat(row.SliceMS, int64(row.Slices)*3600000))
		}
	}
	for _, terms := range s.book.Versions[s.version(hour)].Tenants {
		for _, r := range terms.Reserved {
			if r.Model == model {
				want = plus(want, r.GPUs.Rat())
			}
		}
	}
	return simulate && !platform || have.Cmp(want) >= 0
}

func (s *slowModel) reservation(tenant string, simulate bool) *big.Rat {
	sum := zero()
	for _, hour := range s.hoursOf(tenant) {
		at := s.version(hour)
		if at < 0 {
			continue
		}
		for _, r := range s.book.Versions[at].Tenants[tenant].Reserved {
			unused := r.GPUs.Rat()
			for _, row := range s.at(hour) {
				if row.Tenant == tenant && row.Model == r.Model {
					unused = minus(unused, row.q)
				}
			}
			if unused.Sign() > 0 && s.couldSupply(hour, r.Model, simulate) {
				sum = plus(sum, times(unused, r.UnusedGPUHour.Rat()))
			}
		}
	}
	return sum
}

// given is what each tenant gets of an hour's platform time.
func (s *slowModel) given(hour time.Time) map[string]*big.Rat {
	at := s.version(hour)
	if at < 0 || !s.book.Versions[at].Proportional {
		return nil
	}
	pool, total := zero(), zero()
	claims := map[string]*big.Rat{}
	for _, row := range s.at(hour) {
		if row.Bucket == "free" || row.Bucket == "stranded" {
			pool = plus(pool, s.list(row))
		}
		if row.Tenant != "" {
			if claims[row.Tenant] == nil {
				claims[row.Tenant] = zero()
			}
			claims[row.Tenant] = plus(claims[row.Tenant], s.list(row))
			total = plus(total, s.list(row))
		}
	}
	if total.Sign() == 0 {
		return nil
	}
	pool = nearest(pool, 9)
	nano := rat(1, 1_000_000_000)
	given, left := map[string]*big.Rat{}, pool
	missing := map[string]*big.Rat{}
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
		best := ""
		for _, tenant := range tenants {
			if missing[tenant] != nil && (best == "" || missing[tenant].Cmp(missing[best]) > 0) {
				best = tenant
			}
		}
		given[best] = plus(given[best], nano)
		missing[best] = nil
		left = minus(left, nano)
	}
	return given
}

func (s *slowModel) invoices(simulate bool) map[string]slowInvoice {
	tenants := map[string]bool{}
	shared := map[time.Time]map[string]*big.Rat{}
	for _, row := range s.rows {
		if row.Tenant != "" && s.in(row.Tenant, row.Hour) {
			tenants[row.Tenant] = true
		}
		if _, done := shared[row.Hour]; !done {
			shared[row.Hour] = s.given(row.Hour)
		}
	}
	for at, version := range s.book.Versions {
		for tenant, terms := range version.Tenants {
			for _, hour := range s.hoursOf(tenant) {
				if s.version(hour) == at && (terms.HasMinimum || len(terms.Reserved) > 0) {
					tenants[tenant] = true
				}
			}
		}
	}
	all := map[string]slowInvoice{}
	for tenant := range tenants {
		all[tenant] = s.invoice(tenant, shared, simulate)
	}
	return all
}

func (s *slowModel) invoice(tenant string, shared map[time.Time]map[string]*big.Rat, simulate bool) slowInvoice {
	e := map[string]*big.Rat{}
	for _, effect := range (Effects{}).Ordered() {
		e[effect.Name] = zero()
	}
	hours := zero()
	byHour := s.tiers(tenant)
	for _, effect := range byHour {
		e["tier"] = plus(e["tier"], effect)
	}
	energy := map[int]int64{}
	discounted := map[time.Time]*big.Rat{}
	for hour, effect := range byHour {
		discounted[hour] = effect
	}
	for _, row := range s.of(tenant) {
		version := s.book.Versions[row.at]
		hours = plus(hours, row.q)
		e["list"] = plus(e["list"], s.list(row))
		e["profile"] = plus(e["profile"], s.profile(row))
		if discounted[row.Hour] == nil {
			discounted[row.Hour] = zero()
		}
		discounted[row.Hour] = plus(discounted[row.Hour], plus(s.list(row), s.profile(row)))
		if row.Bucket == "idle" {
			e["idle_surcharge"] = plus(e["idle_surcharge"], times(s.list(row), version.IdleSurcharge.Rat()))
		}
		energy[row.at] += row.EnergyMJ
	}
	for hour, value := range discounted {
		discount := s.book.Versions[s.version(hour)].Tenants[tenant].Discount.Rat()
		e["discount"] = minus(e["discount"], times(discount, value))
	}
	fixed := s.monthly(tenant, func(t prices.Terms) *big.Rat { return t.FixedDiscount.Rat() })
	left := plus(plus(e["list"], e["profile"]), plus(e["tier"], e["discount"]))
	if fixed.Cmp(left) > 0 {
		fixed = left
	}
	if left.Sign() > 0 {
		e["fixed_discount"] = minus(zero(), fixed)
	}
	e["reservation"] = s.reservation(tenant, simulate)
	due := plus(plus(left, e["fixed_discount"]), plus(e["reservation"], e["idle_surcharge"]))
	minimum := s.monthly(tenant, func(t prices.Terms) *big.Rat { return t.Minimum.Rat() })
	if minimum.Cmp(due) > 0 {
		e["minimum"] = minus(minimum, due)
	}
	for at, mJ := range energy {
		e["energy"] = plus(e["energy"], times(nearest(rat(mJ, 3_600_000_000), 9), s.book.Versions[at].KWh.Rat()))
	}
	for hour, given := range shared {
		if given[tenant] != nil && s.in(tenant, hour) {
			e["distribution"] = plus(e["distribution"], given[tenant])
		}
	}
	sum := zero()
	for _, amount := range e {
		sum = plus(sum, amount)
	}
	total := nearest(sum, int64(s.book.MinorUnit))
	e["rounding"] = minus(total, sum)
	return slowInvoice{hours, e, total}
}
