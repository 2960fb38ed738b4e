package focuscheck

import (
	"maps"
	"slices"
	"strings"

	"github.com/shopspring/decimal"
)

// rulePayable is the rule of invoices' sums.
var rulePayable = rules[slices.IndexFunc(rules, func(r rule) bool { return r.ID == "BilledCost-C-007-M" })]

// crossing is what is kept of all lines.
type crossing struct {
	seen    map[string]map[string]string // by rule and value: the other column's
	billed  map[string]decimal.Decimal
	unclear map[string]bool // invoices with a cost that isn't one
}

func newCrossing() crossing {
	return crossing{seen: map[string]map[string]string{}, billed: map[string]decimal.Decimal{}, unclear: map[string]bool{}}
}

// single compares a line with those before it, by a rule across lines.
func (c *checker) single(line int, r *rule) {
	key, value := c.row.text(r.terms[0].column), c.row.text(r.terms[0].of[0])
	if key == "" || value == "" {
		return
	}
	seen := c.cross.seen[r.ID]
	if seen == nil {
		seen = map[string]string{}
		c.cross.seen[r.ID] = seen
	}
	first, known := seen[key]
	if !known {
		seen[strings.Clone(key)] = strings.Clone(value)
	} else if first != value {
		c.report(line, r.Column, r.ID, key+": "+first+" and "+value)
	}
}

// bill adds a line to its invoice's sum.
func (c *checker) bill() {
	if !c.row.has("InvoiceId", "BilledCost") {
		return
	}
	id := c.row.text("InvoiceId")
	if _, asked := c.options.Payable[id]; !asked {
		return
	}
	if !c.row.sound("InvoiceId", "BilledCost") {
		c.cross.unclear[id] = true
		return
	}
	c.cross.billed[strings.Clone(id)] = c.cross.billed[id].Add(c.row.number("BilledCost"))
}

// acrossInvoices compares sums with what invoices come to.
func (c *checker) acrossInvoices() {
	if !c.row.has("InvoiceId", "BilledCost") {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(c.options.Payable)) {
		if sum, want := c.cross.billed[id], c.options.Payable[id]; !c.cross.unclear[id] && !sum.Equal(want) {
			c.report(0, rulePayable.Column, rulePayable.ID, id+": "+sum.String()+", payable is "+want.String())
		}
	}
}
