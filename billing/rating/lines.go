package rating

import (
	"cmp"
	"slices"
	"time"

	"github.com/shopspring/decimal"
)

// Charge is one exact amount as it arises: of one UTC hour, or of the month as
// a whole. An invoice's charges sum to its effects, and to its total.
type Charge struct {
	// Tenant is who is charged; empty: the platform, whose list value nobody is
	// billed for.
	Tenant string
	// Hour is the UTC hour; zero: the amount is of the month (fixed discount,
	// minimum, energy, rounding).
	Hour time.Time
	// Version is the index in the book's Versions of the prices in force; -1
	// where the amount is of no one version.
	Version int
	Effect  string
	Project string
	Model   string
	Profile string
	Bucket  string
	// SliceMS, Slices and ProfileSlices are of charges of effect list and profile.
	SliceMS       int64
	Slices        int
	ProfileSlices int
	// Amount is exactly Quantity × UnitPrice where Unit is not empty.
	Quantity  decimal.Decimal
	Unit      string
	UnitPrice decimal.Decimal
	Amount    decimal.Decimal
	// TierAbove and ReportedAs are as on lines.
	TierAbove, ReportedAs string
	// Detail says in words what the figures cannot.
	Detail string
}

// times is the charge with its quantity, price and their product.
func (c Charge) times(quantity decimal.Decimal, unit string, price decimal.Decimal) Charge {
	c.Quantity, c.Unit, c.UnitPrice, c.Amount = quantity, unit, price, quantity.Mul(price)
	return c
}

// of is the charge with an amount that is no product.
func (c Charge) of(amount decimal.Decimal) Charge {
	c.Amount = amount
	return c
}

// Negated is what takes the charge back.
func (c Charge) Negated() Charge {
	c.SliceMS, c.Quantity, c.Amount = -c.SliceMS, c.Quantity.Neg(), c.Amount.Neg()
	return c
}

// lineKey is what lines are merged by, beside their price.
type lineKey struct {
	effect, project, model, profile, bucket, unit, tierAbove, reportedAs, detail string
}

// ledgerLines gathers quantities by line; the few lines of a key differ in price.
type ledgerLines map[lineKey][]*Line

// add makes a charge part of its line.
func (l ledgerLines) add(c Charge) {
	line := l.line(lineKey{
		effect: c.Effect, project: c.Project, model: c.Model, profile: c.Profile, bucket: c.Bucket, unit: c.Unit,
		tierAbove: c.TierAbove, reportedAs: c.ReportedAs, detail: c.Detail,
	}, c.UnitPrice)
	line.Quantity = line.Quantity.Add(c.Quantity)
	line.Amount = line.Amount.Add(c.Amount)
}

func (l ledgerLines) line(k lineKey, price decimal.Decimal) *Line {
	for _, line := range l[k] {
		if line.UnitPrice.Equal(price) {
			return line
		}
	}
	line := &Line{
		Effect: k.effect, Project: k.project, Model: k.model, Profile: k.profile, Bucket: k.bucket,
		Unit: k.unit, UnitPrice: price, TierAbove: k.tierAbove, ReportedAs: k.reportedAs, Detail: k.detail,
	}
	l[k] = append(l[k], line)
	return line
}

// amount is a line without a quantity; a zero one is left out.
func (l ledgerLines) amount(effect string, amount decimal.Decimal, detail string) {
	if !amount.IsZero() {
		l[lineKey{effect: effect, detail: detail}] = []*Line{{Effect: effect, Amount: amount, Detail: detail}}
	}
}

// sorted are the lines in the order of effects, then by what they name; lines
// of no quantity and no amount are left out.
func (l ledgerLines) sorted() []Line {
	rank := map[string]int{}
	for i, effect := range (Effects{}).Ordered() {
		rank[effect.Name] = i
	}
	list := make([]Line, 0, len(l))
	for _, prices := range l {
		for _, line := range prices {
			if !line.Quantity.IsZero() || !line.Amount.IsZero() {
				list = append(list, *line)
			}
		}
	}
	slices.SortFunc(list, func(a, b Line) int {
		return cmp.Or(cmp.Compare(rank[a.Effect], rank[b.Effect]), cmp.Compare(a.Project, b.Project),
			cmp.Compare(a.Model, b.Model), cmp.Compare(a.Profile, b.Profile), cmp.Compare(a.Bucket, b.Bucket),
			cmp.Compare(a.Unit, b.Unit), a.UnitPrice.Cmp(b.UnitPrice), cmp.Compare(a.Detail, b.Detail))
	})
	return list
}
