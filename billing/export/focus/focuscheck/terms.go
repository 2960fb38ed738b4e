package focuscheck

import (
	"regexp"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
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

// has returns whether the file has all the columns.
func (r *record) has(columns ...string) bool {
	return !slices.ContainsFunc(columns, func(name string) bool { _, ok := r.at[name]; return !ok })
}

// sound returns whether the cells can be compared; the columns exist.
func (r *record) sound(columns ...string) bool {
	return !slices.ContainsFunc(columns, func(name string) bool { return r.bad[r.at[name]] })
}

// text is a cell; empty where it is null.
func (r *record) text(column string) string { return r.cells[r.at[column]] }

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

// term is one condition of a rule: a column, what its cell is, and the values or
// columns that this is about.
type term struct {
	column, is string
	of         []string
}

// hasAnother is the term of rules that a value of a column has one value of
// another column throughout the file.
const hasAnother = "has-another"

// unitFormat is UnitFormat's three ways: plural; singular-plural; plural/time.
var unitFormat = regexp.MustCompile(`^([1-9][0-9]* )?[A-Z][A-Za-z]*` +
	`(-(Milliseconds|Microseconds|Seconds|Minutes|Hours|Days|Months|Years))?` +
	`(/(Millisecond|Microsecond|Second|Minute|Hour|Day|Month|Year|` +
	`[1-9][0-9]* (Seconds|Minutes|Hours|Days|Months|Years)))?$`)

// words of the table of rules: when they hold of a line, and whether they are
// about other columns.
type word struct {
	holds   func(r *record, t term) bool
	columns bool
}

var vocabulary = map[string]word{
	"null":     {holds: func(r *record, t term) bool { return r.text(t.column) == "" }},
	"set":      {holds: func(r *record, t term) bool { return r.text(t.column) != "" }},
	"is":       {holds: func(r *record, t term) bool { return slices.Contains(t.of, r.text(t.column)) }},
	"is-not":   {holds: func(r *record, t term) bool { return !slices.Contains(t.of, r.text(t.column)) }},
	"negative": {holds: func(r *record, t term) bool { return r.number(t.column).IsNegative() }},
	"nonzero":  {holds: func(r *record, t term) bool { return !r.number(t.column).IsZero() }},
	"not-unit": {holds: func(r *record, t term) bool {
		return r.text(t.column) != "" && !unitFormat.MatchString(r.text(t.column))
	}},
	"not-currency": {holds: func(r *record, t term) bool { return !prices.KnownCurrency(r.text(t.column)) }},
	"same":         {columns: true, holds: func(r *record, t term) bool { return r.text(t.column) == r.text(t.of[0]) }},
	"differs":      {columns: true, holds: func(r *record, t term) bool { return r.text(t.column) != r.text(t.of[0]) }},
	"amount-not": {columns: true, holds: func(r *record, t term) bool {
		return !r.number(t.column).Equal(r.number(t.of[0]))
	}},
	"product-of-not": {columns: true, holds: func(r *record, t term) bool {
		price, quantity := t.of[0], t.of[1]
		if r.text(t.column) == "" || r.text(price) == "" || r.text(quantity) == "" {
			return false
		}
		return !r.number(price).Mul(r.number(quantity)).Equal(r.number(t.column))
	}},
	"not-after": {columns: true, holds: func(r *record, t term) bool {
		return !r.instant(t.of[0]).Before(r.instant(t.column))
	}},
	"not-of": {columns: true, holds: func(r *record, t term) bool {
		return !slices.Contains(subcategories[r.text(t.of[0])], r.text(t.column))
	}},
	"custom-key": {holds: anyProperty(func(key string, _ any) bool { return skuProperties[key] == "" && !isCustom(key) })},
	"mistyped-key": {holds: anyProperty(func(key string, value any) bool {
		_, isNumber := value.(float64)
		_, isText := value.(string)
		return skuProperties[key] == "number" && !isNumber || skuProperties[key] == "text" && !isText
	})},
	hasAnother: {columns: true}, // of several lines
}

// anyProperty returns whether any property of an object meets the condition.
func anyProperty(is func(key string, value any) bool) func(r *record, t term) bool {
	return func(r *record, t term) bool {
		if r.text(t.column) == "" {
			return false
		}
		properties, _ := parseObject(r.text(t.column)) // what isn't one has broken a rule of its own
		for key, value := range properties {
			if is(key, value) {
				return true
			}
		}
		return false
	}
}
