package focuscheck

import (
	"slices"
	"time"

	"github.com/shopspring/decimal"
)

// record is a line of the file by column.
type record struct {
	at    map[string]int
	cells []string
	bad   []bool // cells that broke a rule by themselves
}

func (r *record) read(cells []string) {
	r.cells = cells
	if r.bad == nil {
		r.bad = make([]bool, len(cells))
	}
	clear(r.bad)
}

// has tells whether the file has all the columns.
func (r *record) has(columns []string) bool {
	return !slices.ContainsFunc(columns, func(name string) bool { _, ok := r.at[name]; return !ok })
}

// sound tells whether the cells can be compared; the columns are there.
func (r *record) sound(columns []string) bool {
	return !slices.ContainsFunc(columns, func(name string) bool { return r.bad[r.at[name]] })
}

// text is a cell; empty where it is null.
func (r *record) text(column string) string { return r.cells[r.at[column]] }

func (r *record) null(column string) bool { return r.text(column) == "" }

func (r *record) is(column string, values ...string) bool {
	return slices.Contains(values, r.text(column))
}

// correction tells whether the row corrects an earlier billing period.
func (r *record) correction() bool { return r.is("ChargeClass", "Correction") }

// number is a sound cell's value; zero where it is null.
func (r *record) number(column string) decimal.Decimal {
	value, err := decimal.NewFromString(r.text(column))
	if err != nil {
		return decimal.Zero
	}
	return value
}

// instant is a sound cell's value; zero where it is null.
func (r *record) instant(column string) time.Time {
	value, err := time.Parse(instantLayout, r.text(column))
	if err != nil {
		return time.Time{}
	}
	return value
}

// differs tells whether a product isn't a cost, where all three are there.
func (r *record) differs(price, quantity, cost string) bool {
	if r.null(price) || r.null(quantity) || r.null(cost) {
		return false
	}
	return !r.number(price).Mul(r.number(quantity)).Equal(r.number(cost))
}
