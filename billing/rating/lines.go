package rating

import (
	"cmp"
	"slices"

	"github.com/shopspring/decimal"
)

// lineKey is what lines are merged by, beside their price.
type lineKey struct {
	effect, project, model, profile, bucket, unit, detail string
}

// ledgerLines gathers quantities by line; the few lines of a key differ in price.
type ledgerLines map[lineKey][]*Line

// add makes a charge part of its line.
func (l ledgerLines) add(c Charge) {
	line := l.line(lineKey{
		effect: c.Effect, project: c.Project, model: c.Model, profile: c.Profile, bucket: c.Bucket, unit: c.Unit, detail: c.Detail,
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
		Unit: k.unit, UnitPrice: price, Detail: k.detail,
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
