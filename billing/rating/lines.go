package rating

import (
	"cmp"
	"slices"
	"time"

	"github.com/shopspring/decimal"
)

// Charge is one exact amount: of one UTC hour, or of the month as a whole. An invoice's charges sum to its effects,
// and to its total. A reduction is negative.
type Charge struct {
	// Tenant is who is charged; empty: the platform, whose list value isn't billed.
	Tenant string
	// Hour is the UTC hour; zero: the amount is of the month (fixed discount, minimum, energy, rounding).
	Hour time.Time
	// Version is the index in the book's Versions of the prices in force; -1 if the amount is not of one version.
	Version int
	Effect  string
	Project string
	Model   string
	Profile string
	Bucket  string
	// SliceMS, Slices and ProfileSlices are set for effects list and profile.
	SliceMS       int64
	Slices        int
	ProfileSlices int
	// Amount is exactly Quantity × UnitPrice if Unit is not empty.
	Quantity  decimal.Decimal
	Unit      string
	UnitPrice decimal.Decimal
	Amount    decimal.Decimal
	// TierAbove and ReportedAs are as in Line.
	TierAbove, ReportedAs string
	// Detail is an explanation in words.
	Detail string
}

// times returns the charge with its quantity, price and their product.
func (c Charge) times(quantity decimal.Decimal, unit string, price decimal.Decimal) Charge {
	c.Quantity, c.Unit, c.UnitPrice, c.Amount = quantity, unit, price, quantity.Mul(price)
	return c
}

// of returns the charge with an amount that is not a product.
func (c Charge) of(amount decimal.Decimal) Charge {
	c.Amount = amount
	return c
}

// Negated returns the charge with the opposite sign.
func (c Charge) Negated() Charge {
	c.SliceMS, c.Quantity, c.Amount = -c.SliceMS, c.Quantity.Neg(), c.Amount.Neg()
	return c
}

// lineSums sums charges by line. The key is the line without its figures, and its price as text, so that equal prices
// of different scale are one.
type lineSums map[lineKey]*lineSum

type lineKey struct {
	line  Line
	price string
}

type lineSum struct{ quantity, price, amount decimal.Decimal }

// charge adds a charge to its line.
func (l lineSums) charge(c Charge) {
	l.add(Line{
		Effect: c.Effect, Project: c.Project, Model: c.Model, Profile: c.Profile, Bucket: c.Bucket, Unit: c.Unit,
		TierAbove: c.TierAbove, ReportedAs: c.ReportedAs, Detail: c.Detail,
	}, c.Quantity, c.UnitPrice, c.Amount)
}

func (l lineSums) add(line Line, quantity, price, amount decimal.Decimal) {
	line.Quantity, line.UnitPrice, line.Amount = Money{}, Money{}, Money{}
	key := lineKey{line, price.String()}
	if l[key] == nil {
		l[key] = &lineSum{price: price}
	}
	l[key].quantity = l[key].quantity.Add(quantity)
	l[key].amount = l[key].amount.Add(amount)
}

// sorted returns the lines in the order of effects, then by key; without lines of no quantity and no amount.
func (l lineSums) sorted() []Line {
	rank := map[string]int{}
	for i, effect := range (Effects{}).Ordered() {
		rank[effect.Name] = i
	}
	list := make([]Line, 0, len(l))
	for key, sum := range l {
		if sum.quantity.IsZero() && sum.amount.IsZero() {
			continue
		}
		line := key.line
		line.Amount = Exact(sum.amount)
		switch line.Unit {
		case "":
		case UnitGPUHour, UnitProfileHour, UnitKWh:
			line.Quantity, line.UnitPrice = Fixed(sum.quantity, places), Exact(sum.price)
		default: // a share of an amount
			line.Quantity, line.UnitPrice = Exact(sum.quantity), Exact(sum.price)
		}
		list = append(list, line)
	}
	slices.SortFunc(list, func(a, b Line) int {
		return cmp.Or(cmp.Compare(rank[a.Effect], rank[b.Effect]), cmp.Compare(a.Project, b.Project),
			cmp.Compare(a.Model, b.Model), cmp.Compare(a.Profile, b.Profile), cmp.Compare(a.Bucket, b.Bucket),
			cmp.Compare(a.Unit, b.Unit), a.UnitPrice.Cmp(b.UnitPrice.Decimal), cmp.Compare(a.Detail, b.Detail))
	})
	return list
}
