package statement

import "github.com/shopspring/decimal"

// top is a table of the groups with the most usage.
type top struct {
	Title, Column string // the table's, and its first column's
	Rows          []group
	// Rest is the usage outside the rows; nil: none.
	Rest     *hours
	Month    hours
	Greatest decimal.Decimal
}

// newTop shows groups by their first value, with the second one beside it.
func newTop(title, column string, groups []group, month hours) top {
	t := top{Title: title, Column: column, Rows: groups, Month: month}
	if len(groups) == 0 {
		return t
	}
	rest := month
	t.Greatest = groups[0].Held()
	for _, g := range groups {
		for i := range rest.by {
			rest.by[i] = rest.by[i].Sub(g.by[i])
		}
	}
	if rest.Held().GreaterThan(driftHours) {
		t.Rest = &rest
	}
	return t
}
