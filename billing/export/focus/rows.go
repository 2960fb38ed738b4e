package focus

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
)

// Units, in FOCUS's UnitFormat: the counted object in the singular, then hours.
const (
	unitGPUHours      = "GPU-Hours"
	unitInstanceHours = "Instance-Hours"
	unitKWh           = "Kilowatt-Hours"
)

// quantityRounding is a platform effect for which rating has no charge.
const quantityRounding = "quantity_rounding"

// key is the key by which charges are summed, besides their unit prices.
type key struct {
	start                           int64 // Unix seconds of ChargePeriodStart
	end                             int64
	version                         int
	effect                          string
	project, model, profile, bucket string
	slices, profileSlices           int
	unit, detail                    string
}

// row is one record of the file.
type row struct {
	key
	quantity   decimal.Decimal // in unit
	list       decimal.Decimal // unit prices, if unit is set
	contracted decimal.Decimal
	prices     string          // both as texts, by which rows are sorted
	amount     decimal.Decimal // where unit is empty
	gpuHours   decimal.Decimal
	sliceMS    int64
	wholeList  decimal.Decimal
}

// billed is the exact cost.
func (r *row) billed() decimal.Decimal {
	if r.unit == "" {
		return r.amount
	}
	return r.quantity.Mul(r.contracted)
}

// nothing returns whether the row is zero throughout, as for a note that changed nothing.
func (r *row) nothing() bool {
	return r.quantity.IsZero() && r.amount.IsZero() && r.wholeList.IsZero() && r.gpuHours.IsZero() && r.sliceMS == 0
}

// gathering is a bill's rows in the making. Its memory depends on days × what is
// held, not on how many GPUs that is.
type gathering struct {
	bill *Bill
	rows map[key][]*row // by their prices
	// folded is the percentage discount as it went into contracted prices;
	// discount is what rating took off.
	folded, discount decimal.Decimal
	// instead is the list value of profiles with a price of their own, less what rating replaced of it.
	instead decimal.Decimal
	err     error
}

func newGathering(b *Bill) *gathering { return &gathering{bill: b, rows: map[key][]*row{}} }

// gatherRows adds a bill's charges up to rows, sorted, and checks their sums.
func gatherRows(b *Bill) ([]*row, error) {
	g := b.gathered
	if g == nil {
		g = newGathering(b)
		if err := b.Charges(g.add); err != nil {
			return nil, err
		}
	}
	if g.err != nil {
		return nil, g.err
	}
	if !b.QuantityRounding.IsZero() {
		g.row(key{effect: quantityRounding, version: -1}, time.Time{}, none, none).wholeList = b.QuantityRounding
	}
	if !g.folded.Equal(g.discount) {
		return nil, fmt.Errorf("contracted prices take off %s, the discount is %s", g.folded, g.discount)
	}
	if !g.instead.IsZero() {
		return nil, fmt.Errorf("list value of priced profiles: %s is not replaced", g.instead)
	}
	var rows []*row
	sum := decimal.Zero
	for _, ofKey := range g.rows {
		for _, r := range ofKey {
			sum = sum.Add(r.billed())
			if !r.nothing() {
				rows = append(rows, r)
			}
		}
	}
	if !sum.Equal(b.Total) {
		return nil, fmt.Errorf("the FOCUS rows sum to %s, the total is %s", sum, b.Total)
	}
	slices.SortFunc(rows, (*row).compare)
	return rows, nil
}

// byPrice are the effects whose charges depend on a version's prices.
var byPrice = []string{
	rating.EffectList, rating.EffectProfile, rating.EffectTier, rating.EffectReservation, rating.EffectEnergy,
}

// ranks are the effects' order within a day.
var ranks = func() map[string]int {
	ranks := map[string]int{}
	for i, effect := range (rating.Effects{}).Ordered() {
		ranks[effect.Name] = i
	}
	ranks[quantityRounding] = len(ranks)
	return ranks
}()

func (r *row) compare(o *row) int {
	return cmp.Or(cmp.Compare(r.start, o.start), cmp.Compare(r.end, o.end), cmp.Compare(ranks[r.effect], ranks[o.effect]),
		cmp.Compare(r.project, o.project), cmp.Compare(r.model, o.model), cmp.Compare(r.profile, o.profile),
		cmp.Compare(r.bucket, o.bucket), cmp.Compare(r.version, o.version), cmp.Compare(r.slices, o.slices),
		cmp.Compare(r.profileSlices, o.profileSlices), cmp.Compare(r.prices, o.prices),
		cmp.Compare(r.detail, o.detail))
}

// none is the price of rows without a unit.
var none decimal.Decimal

// row is the one of a key and prices at a charge's hour; zero: of the month.
func (g *gathering) row(k key, hour time.Time, list, contracted decimal.Decimal) *row {
	from, to := g.span(k, hour)
	k.start, k.end = from.Unix(), to.Unix()
	for _, r := range g.rows[k] {
		if r.list.Equal(list) && r.contracted.Equal(contracted) {
			return r
		}
	}
	r := &row{key: k, list: list, contracted: contracted, prices: list.String() + "\x00" + contracted.String()}
	g.rows[k] = append(g.rows[k], r)
	return r
}

// span is the charge period: the UTC day of an hour, or the month; within it the part in which a version of the
// prices was in force, bounded by the bill's period.
func (g *gathering) span(k key, hour time.Time) (from, to time.Time) {
	from, to = g.bill.From, g.bill.To
	if !hour.IsZero() {
		day := hour.UTC().Truncate(24 * time.Hour)
		from, to = later(from, day), earlier(to, day.Add(24*time.Hour))
	}
	if k.version < 0 {
		return from, to
	}
	versions := g.bill.Book.Versions
	from = later(from, versions[k.version].Effective)
	if k.version+1 < len(versions) {
		to = earlier(to, versions[k.version+1].Effective)
	}
	return from, to
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// add adds a charge to its row; the first error is kept.
func (g *gathering) add(c rating.Charge) {
	if g.err == nil {
		g.err = g.put(c)
	}
}

func (g *gathering) put(c rating.Charge) error {
	if c.Tenant != g.bill.Tenant {
		return fmt.Errorf("a charge of effect %s is of tenant %q", c.Effect, c.Tenant)
	}
	least := -1
	if slices.Contains(byPrice, c.Effect) {
		least = 0
	}
	if c.Version < least || c.Version >= len(g.bill.Book.Versions) {
		return fmt.Errorf("a charge of effect %s is of version %d of %d", c.Effect, c.Version, len(g.bill.Book.Versions))
	}
	switch c.Effect {
	case rating.EffectList:
		g.held(c, g.version(c))
	case rating.EffectProfile:
		g.profile(c, g.version(c))
	case rating.EffectTier:
		k := keyOf(c)
		k.detail = c.Detail
		r := g.row(k, c.Hour, none, none)
		r.amount = r.amount.Add(g.discounted(c, g.version(c)))
	case rating.EffectDiscount:
		g.discount = g.discount.Sub(c.Amount)
	case rating.EffectReservation:
		g.priced(c, unitGPUHours, g.version(c).Models[c.Model].GPUHour, c.UnitPrice)
	case rating.EffectEnergy:
		g.priced(c, unitKWh, c.UnitPrice, c.UnitPrice)
	case rating.EffectDistribution:
		if g.bill.Kind == KindPlatform {
			return nil // tenants' parts are on their bills
		}
		g.amount(c)
	case rating.EffectFixedDiscount, rating.EffectIdleSurcharge, rating.EffectMinimum, rating.EffectRounding:
		g.amount(c)
	default:
		return fmt.Errorf("a charge has the effect %q", c.Effect)
	}
	return nil
}

func (g *gathering) version(c rating.Charge) *prices.Version {
	return &g.bill.Book.Versions[c.Version]
}

func keyOf(c rating.Charge) key {
	return key{
		version: c.Version, effect: c.Effect, project: c.Project, model: c.Model, profile: c.Profile, bucket: c.Bucket,
		slices: c.Slices, profileSlices: c.ProfileSlices,
	}
}

// one is the whole price.
var one = decimal.NewFromInt(1)

// discounted subtracts the tenant's percentage discount from an amount, and adds it to folded.
func (g *gathering) discounted(c rating.Charge, version *prices.Version) decimal.Decimal {
	off := c.Amount.Mul(version.Tenants[c.Tenant].Discount)
	g.folded = g.folded.Add(off)
	return c.Amount.Sub(off)
}

// timeRow returns the row of held time, or of the platform's, at a list price.
func (g *gathering) timeRow(c rating.Charge, unit string, list decimal.Decimal, version *prices.Version) *row {
	contracted := list.Mul(one.Sub(version.Tenants[c.Tenant].Discount))
	if c.Tenant == "" {
		contracted = decimal.Zero
	}
	k := keyOf(c)
	k.effect = rating.EffectList
	if unit == unitInstanceHours {
		k.effect = rating.EffectProfile
	}
	k.unit = unit
	return g.row(k, c.Hour, list, contracted)
}

// held adds time and its list value; time of a profile with a price of its own is billed by that.
func (g *gathering) held(c rating.Charge, version *prices.Version) {
	g.discounted(c, version)
	price, byProfile := version.Models[c.Model].Profiles[c.Profile]
	byProfile = byProfile && c.Tenant != ""
	var r *row
	if byProfile {
		g.instead = g.instead.Add(c.Amount)
		r = g.timeRow(c, unitInstanceHours, price, version)
	} else {
		r = g.timeRow(c, unitGPUHours, c.UnitPrice, version)
		r.quantity = r.quantity.Add(c.Quantity)
	}
	r.gpuHours = r.gpuHours.Add(c.Quantity)
	r.sliceMS += c.SliceMS
	r.wholeList = r.wholeList.Add(c.Amount)
}

// profile adds a profile's own price, or the list value that it replaces.
func (g *gathering) profile(c rating.Charge, version *prices.Version) {
	g.discounted(c, version)
	if c.Unit != rating.UnitProfileHour {
		g.instead = g.instead.Add(c.Amount)
		return
	}
	r := g.timeRow(c, unitInstanceHours, c.UnitPrice, version)
	r.quantity = r.quantity.Add(c.Quantity)
}

// priced adds a charge by quantity without discount.
func (g *gathering) priced(c rating.Charge, unit string, list, contracted decimal.Decimal) {
	k := keyOf(c)
	k.unit = unit
	r := g.row(k, c.Hour, list, contracted)
	r.quantity = r.quantity.Add(c.Quantity)
}

// amount adds a charge for which FOCUS has no unit price.
func (g *gathering) amount(c rating.Charge) {
	r := g.row(keyOf(c), c.Hour, none, none)
	r.amount = r.amount.Add(c.Amount)
}
