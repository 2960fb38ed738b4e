package focuscheck

import (
	"maps"
	"slices"
	"strings"

	"github.com/shopspring/decimal"
)

// single is a rule that a value has one other value throughout the file.
type single struct {
	Rule
	key, value string
	seen       map[string]string
}

var singles = []single{
	{Rule: Rule{"SkuPriceId-C-008-M", "SkuPriceId", "SkuPriceId MUST have one and only one parent SkuId.", sourceModel}, key: "SkuPriceId", value: "SkuId"},
	{Rule: Rule{"ServiceName-C-005-C", "ServiceName", "ServiceName MUST have one and only one ServiceCategory.", sourceModel}, key: "ServiceName", value: "ServiceCategory"},
	{Rule: Rule{"BillingCurrency-C-005-M", "BillingCurrency", "BillingCurrency MUST match the currency used in the invoice: one for an InvoiceId.", sourceModel}, key: "InvoiceId", value: "BillingCurrency"},
	{Rule: Rule{"InvoiceId-C-007-C", "InvoiceId", "InvoiceId MUST be associated with the related charge and BillingAccountId: one for an InvoiceId.", sourceModel}, key: "InvoiceId", value: "BillingAccountId"},
}

var rulePayable = Rule{
	"BilledCost-C-007-M", "BilledCost", "The sum of the BilledCost for a given InvoiceId MUST match the sum of the payable amount provided in the corresponding invoice.", sourceModel,
}

// crossRules are those that more than one line is needed for.
var crossRules = func() []Rule {
	rules := []Rule{rulePayable}
	for _, s := range singles {
		rules = append(rules, s.Rule)
	}
	return rules
}()

// crossing is what is kept of all lines.
type crossing struct {
	singles []single
	billed  map[string]decimal.Decimal
	unclear map[string]bool // invoices with a cost that isn't one
}

func newCrossing() crossing {
	c := crossing{singles: slices.Clone(singles), billed: map[string]decimal.Decimal{}, unclear: map[string]bool{}}
	for i := range c.singles {
		c.singles[i].seen = map[string]string{}
	}
	return c
}

// across compares a line with those before it.
func (c *checker) across(line int) {
	for _, s := range c.cross.singles {
		columns := needed(s.key, s.value)
		if !c.row.has(columns) || !c.row.sound(columns) || c.row.null(s.key) || c.row.null(s.value) {
			continue
		}
		key, value := c.row.text(s.key), c.row.text(s.value)
		first, seen := s.seen[key]
		if !seen {
			s.seen[strings.Clone(key)] = strings.Clone(value)
		} else if first != value {
			c.report(line, s.Column, s.ID, key+": "+first+" and "+value)
		}
	}
	if !c.row.has(needed("InvoiceId", "BilledCost")) {
		return
	}
	id := c.row.text("InvoiceId")
	if _, asked := c.options.Payable[id]; !asked {
		return
	}
	if !c.row.sound(needed("InvoiceId", "BilledCost")) {
		c.cross.unclear[id] = true
		return
	}
	c.cross.billed[strings.Clone(id)] = c.cross.billed[id].Add(c.row.number("BilledCost"))
}

// acrossInvoices compares sums with what invoices come to.
func (c *checker) acrossInvoices() {
	if !c.row.has(needed("InvoiceId", "BilledCost")) {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(c.options.Payable)) {
		if sum, want := c.cross.billed[id], c.options.Payable[id]; !c.cross.unclear[id] && !sum.Equal(want) {
			c.report(0, rulePayable.Column, rulePayable.ID, id+": "+sum.String()+", payable is "+want.String())
		}
	}
}
