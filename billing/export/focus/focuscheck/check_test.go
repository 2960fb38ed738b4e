package focuscheck

import (
	"bytes"
	"encoding/csv"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/internal/costtest"
)

// file is a small export that is right, to be made wrong.
type file struct {
	header []string
	rows   []map[string]string
}

// The rows of a file by what they charge for.
const (
	usageRow = iota
	unusedRow
	creditRow
	taxRow
	adjustmentRow
	purchaseRow
	correctionRow
)

// common are the cells of all rows.
var common = map[string]string{
	"BillingAccountId": "ba-1", "BillingAccountName": "Acme", "BillingCurrency": "EUR", "InvoiceId": "i-1", "InvoiceIssuerName": "Acme",
	"ProviderName": "Acme", "PublisherName": "Acme", "ServiceProviderName": "Acme", "HostProviderName": "Acme",
	"BillingPeriodStart": "2026-03-01T00:00:00Z", "BillingPeriodEnd": "2026-04-01T00:00:00Z",
	"ChargePeriodStart": "2026-03-02T00:00:00Z", "ChargePeriodEnd": "2026-03-03T00:00:00Z", "ChargeDescription": "a charge",
	"ServiceCategory": "Compute", "ServiceSubcategory": "Other (Compute)", "ServiceName": "GPU Compute", "Tags": `{"acme/a":"b"}`,
	"SubAccountId": "t/1", "SubAccountName": "none", "SubAccountType": "Tenant", "x_Project": "p", "ChargeFrequency": "Usage-Based",
}

// priced are the cells of a charge by quantity.
var priced = map[string]string{
	"ChargeCategory": "Usage", "SkuId": "s/1", "SkuMeter": "Time", "SkuPriceId": "s/1", "SkuPriceDetails": `{"GpuCount":1,"InstanceType":"H100","x_MigProfile":"1g"}`,
	"PricingCategory": "Standard", "PricingQuantity": "0.3", "PricingUnit": "GPU-Hours", "ListUnitPrice": "2.1", "ContractedUnitPrice": "2.0",
	"ConsumedQuantity": "1E-1", "ConsumedUnit": "Hours", "ListCost": "0.63", "ContractedCost": "0.6", "EffectiveCost": "0.6", "BilledCost": "0.6",
}

func rightFile(version string) *file {
	row := func(parts ...map[string]string) map[string]string {
		row := map[string]string{}
		for _, part := range parts {
			maps.Copy(row, part)
		}
		return row
	}
	cost := func(cost, category string) map[string]string {
		return row(common, map[string]string{"ChargeCategory": category, "ListCost": cost, "ContractedCost": cost, "EffectiveCost": cost, "BilledCost": cost})
	}
	f := &file{rows: []map[string]string{
		usageRow: row(common, priced, map[string]string{"ResourceId": "r/1", "ResourceName": "gpu", "ResourceType": "GPU", "RegionId": "eu", "RegionName": "Europe"}),
		unusedRow: row(common, priced, map[string]string{
			"ConsumedQuantity": "0", "CapacityReservationId": "c/1", "CapacityReservationStatus": "Unused",
		}),
		creditRow:     cost("-1", "Credit"),
		taxRow:        cost("0.19", "Tax"),
		adjustmentRow: cost("0.01", "Adjustment"),
		purchaseRow: row(common, priced, map[string]string{
			"ChargeCategory": "Purchase", "ChargeFrequency": "One-Time", "ConsumedQuantity": "", "ConsumedUnit": "",
		}),
		correctionRow: row(common, priced, map[string]string{
			"ChargeClass": "Correction", "PricingQuantity": "-0.3", "ListCost": "-0.63", "ContractedCost": "-0.6", "EffectiveCost": "-0.6", "BilledCost": "-0.6",
		}),
	}}
	for _, c := range columns {
		if c.in(version) && !strings.HasPrefix(c.name, "PricingCurrency") && !strings.HasPrefix(c.name, "Commitment") {
			f.header = append(f.header, c.name)
		}
	}
	f.header = append(f.header, "x_Project")
	return f
}

// payable is what the invoice of the file comes to.
var payable = map[string]decimal.Decimal{"i-1": decimal.RequireFromString("0.4")}

func (f *file) bytes(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	_ = w.Write(f.header)
	for _, row := range f.rows {
		cells := make([]string, len(f.header))
		for i, name := range f.header {
			cells[i] = row[name]
		}
		_ = w.Write(cells)
	}
	w.Flush()
	if w.Error() != nil {
		t.Fatal(w.Error())
	}
	return out.Bytes()
}

// set changes a cell, of a column that need not be there.
func (f *file) set(row int, column, value string) {
	if !slices.Contains(f.header, column) {
		f.header = slices.Insert(f.header, 0, column)
	}
	f.rows[row][column] = value
}

// cells changes several of a row.
func cells(row int, pairs ...string) func(*file) {
	return func(f *file) {
		for i := 0; i < len(pairs); i += 2 {
			f.set(row, pairs[i], pairs[i+1])
		}
	}
}

func named(name string, at int) func(*file) {
	return func(f *file) { f.header = slices.Insert(f.header, min(at, len(f.header)), name) }
}

// mistakes has, for each rule that isn't of one column alone, a file that
// breaks it.
var mistakes = map[string]func(*file){
	"csv-column-twice":       named("BilledCost", 0),
	"ColumnHandling-A-010-M": named("Project", 1000),
	"ColumnHandling-A-005-O": named("x_"+strings.Repeat("A", 49), 1000),
	"ColumnHandling-A-011-O": named("x_snake_case", 1000),
	"ColumnHandling-A-013-O": func(f *file) { slices.Reverse(f.header[len(f.header)-2:]) },

	"StringHandling-A-001-M": cells(usageRow, "ChargeDescription", "\xff"),
	"NullHandling-A-002-M":   cells(usageRow, "ChargeClass", "N/A"),
	"DateTimeFormat-A-004-M": cells(usageRow, "ChargePeriodStart", "2026-03-02 00:00:00Z"),
	"DateTimeFormat-A-005-M": cells(usageRow, "ChargePeriodStart", "2026-03-02T0:00:00Z"),
	"DateTimeFormat-A-006-M": cells(usageRow, "ChargePeriodStart", "2026-03-02T00:00:00+00:00"),
	"KeyValueFormat-A-001-M": cells(usageRow, "Tags", `["a"]`),
	"KeyValueFormat-A-002-M": cells(usageRow, "Tags", `{"acme/a":1,"acme/a":2}`),
	"KeyValueFormat-A-004-M": cells(usageRow, "Tags", `{"acme/a":{"b":1}}`),
	"NumericFormat-A-002-M":  cells(usageRow, "BilledCost", "0.6;0.7"),
	"NumericFormat-A-004-M":  cells(usageRow, "BilledCost", "3/5"),
	"NumericFormat-A-005-M":  cells(usageRow, "BilledCost", "6e-1"),
	"NumericFormat-A-006-M":  cells(usageRow, "BilledCost", "6E+1"),
	"NumericFormat-A-007-M":  cells(usageRow, "BilledCost", "=0.2*3"),
	"NumericFormat-A-008-M":  cells(usageRow, "BilledCost", "$0.6"),
	"NumericFormat-A-009-M":  cells(usageRow, "BilledCost", "1,000.6"),
	"NumericFormat-A-010-M":  cells(usageRow, "BilledCost", "+0.6"),
	"NumericFormat-A-011-M":  cells(usageRow, "BilledCost", "(0.6)"),

	"ContractedUnitPrice-C-005-C":            cells(taxRow, "ContractedUnitPrice", "1"),
	"ContractedUnitPrice-C-006-C":            cells(usageRow, "ContractedUnitPrice", ""),
	"ContractedUnitPrice-C-009-C":            cells(usageRow, "ContractedUnitPrice", "-2.0", "ContractedCost", "-0.6"),
	"ContractedUnitPrice-C-011-C":            cells(usageRow, "ContractedCost", "0.600000000000000000001"),
	"ListUnitPrice-C-004-C":                  cells(taxRow, "ListUnitPrice", "1"),
	"ListUnitPrice-C-005-C":                  cells(purchaseRow, "ListUnitPrice", ""),
	"ListUnitPrice-C-008-M":                  cells(usageRow, "ListUnitPrice", "-2.1", "ListCost", "-0.63"),
	"ListUnitPrice-C-010-C":                  cells(usageRow, "ListCost", "0.6300000001"),
	"PricingCategory-C-003-C":                cells(taxRow, "PricingCategory", "Standard"),
	"PricingCategory-C-004-C":                cells(usageRow, "PricingCategory", ""),
	"PricingQuantity-C-004-C":                cells(taxRow, "PricingQuantity", "1", "PricingUnit", "Units"),
	"PricingQuantity-C-005-C":                cells(usageRow, "PricingQuantity", "", "PricingUnit", ""),
	"PricingUnit-C-005-C":                    cells(adjustmentRow, "PricingUnit", "Hours"),
	"PricingUnit-C-006-C":                    cells(usageRow, "PricingUnit", ""),
	"PricingUnit-C-003-O":                    cells(usageRow, "PricingUnit", "gpu hours"),
	"ConsumedUnit-C-003-O":                   cells(usageRow, "ConsumedUnit", "per hour"),
	"ConsumedUnit-C-005-C":                   cells(creditRow, "ConsumedUnit", "Hours"),
	"ConsumedUnit-C-006-C":                   cells(usageRow, "ConsumedUnit", ""),
	"ConsumedQuantity-C-004-C":               cells(creditRow, "ConsumedQuantity", "1", "ConsumedUnit", "Hours"),
	"ConsumedQuantity-C-006-C":               cells(usageRow, "ConsumedQuantity", "", "ConsumedUnit", ""),
	"SkuId-C-004-C":                          cells(taxRow, "SkuId", "s/1"),
	"SkuId-C-005-C":                          cells(usageRow, "SkuId", "", "SkuMeter", ""),
	"SkuMeter-C-004-C":                       cells(creditRow, "SkuMeter", "Time"),
	"SkuPriceId-C-004-C":                     cells(taxRow, "SkuPriceId", "s/1"),
	"SkuPriceId-C-008-M":                     cells(correctionRow, "SkuId", "s/2"),
	"SkuPriceDetails-C-004-C":                cells(creditRow, "SkuPriceDetails", `{"GpuCount":1}`),
	"SkuPriceDetails-C-017-C":                cells(usageRow, "SkuPriceDetails", `{"MigProfile":"1g"}`),
	"SkuPriceDetails-C-021-M":                cells(usageRow, "SkuPriceDetails", `{"GpuCount":"1"}`),
	"SubAccountName-C-004-C":                 cells(creditRow, "SubAccountId", "", "SubAccountType", ""),
	"SubAccountName-C-005-C":                 cells(creditRow, "SubAccountName", ""),
	"SubAccountType-C-004-C":                 cells(creditRow, "SubAccountId", "", "SubAccountName", ""),
	"SubAccountType-C-005-C":                 cells(creditRow, "SubAccountType", ""),
	"ResourceType-C-004-C":                   cells(creditRow, "ResourceType", "GPU"),
	"ResourceType-C-005-C":                   cells(usageRow, "ResourceType", ""),
	"ResourceName-C-004-C":                   cells(creditRow, "ResourceName", "gpu"),
	"ResourceName-C-006-C":                   cells(usageRow, "ResourceName", "r/1"),
	"RegionName-C-004-C":                     cells(creditRow, "RegionName", "Europe"),
	"RegionName-C-005-C":                     cells(usageRow, "RegionName", ""),
	"ContractedCost-C-008-C":                 cells(adjustmentRow, "ContractedCost", "0.02"),
	"ListCost-C-008-C":                       cells(adjustmentRow, "ListCost", "0.02"),
	"EffectiveCost-C-010-C":                  cells(creditRow, "EffectiveCost", "0"),
	"BillingPeriodEnd-C-004-M":               cells(usageRow, "BillingPeriodEnd", "2026-03-01T00:00:00Z"),
	"ChargePeriodEnd-C-004-M":                cells(usageRow, "ChargePeriodEnd", "2026-03-01T00:00:00Z"),
	"BillingCurrency-C-005-M":                cells(usageRow+1, "BillingCurrency", "USD"),
	"BillingCurrency-C-006-M":                cells(usageRow, "BillingCurrency", "Credits", "InvoiceId", ""),
	"BilledCost-C-007-M":                     cells(usageRow, "BilledCost", "0.61"),
	"ChargeClass-C-005-C":                    cells(usageRow, "ChargeClass", "Refund"),
	"ChargeFrequency-C-004-C":                cells(purchaseRow, "ChargeFrequency", "Usage-Based"),
	"CapacityReservationId-C-005-C":          cells(unusedRow, "CapacityReservationId", ""),
	"CapacityReservationStatus-C-003-C":      cells(usageRow, "CapacityReservationStatus", "Used"),
	"CapacityReservationStatus-C-004-C":      cells(unusedRow, "CapacityReservationStatus", ""),
	"ServiceName-C-005-C":                    cells(taxRow, "ServiceCategory", "Storage", "ServiceSubcategory", "Other (Storage)"),
	"ServiceSubcategory-C-004-M":             cells(usageRow, "ServiceSubcategory", "Other (Storage)"),
	"InvoiceId-C-007-C":                      cells(taxRow, "BillingAccountId", "ba-2"),
	"BilledCost-C-005-C":                     cells(usageRow, "ProviderName", "Market"),
	"SkuPriceId-C-005-C":                     cells(usageRow, "SkuPriceId", "", "SkuPriceDetails", ""),
	"PricingQuantity-1.4-without-SkuPriceId": cells(adjustmentRow, "PricingQuantity", "1", "PricingUnit", "Units"),
}

// besides14 are rules that 1.4 has broken with others: a quantity wants a
// SkuPriceId there, which Tax can't have and other charges may lack.
var besides14 = map[string][]string{
	"SkuPriceId-C-005-C":      {"PricingQuantity-1.4-without-SkuPriceId"},
	"PricingQuantity-C-004-C": {"PricingQuantity-1.4-without-SkuPriceId"},
}

// mistake makes a file wrong by one rule; nil where no way is known.
func mistake(rule Rule) func(*file) {
	if f, ok := mistakes[rule.ID]; ok {
		return f
	}
	for _, c := range columns {
		row := usageRow
		if c.name == "CapacityReservationStatus" {
			row = unusedRow
		}
		switch {
		case c.name != rule.Column:
		case rule.ID == c.presence:
			return func(f *file) {
				f.header = slices.DeleteFunc(f.header, func(name string) bool { return name == c.name })
			}
		case rule.ID == c.notNull:
			return cells(row, c.name, "")
		case rule.ID == c.typed && c.kind == instant:
			return cells(row, c.name, "2026-13-01T00:00:00Z")
		case rule.ID == c.typed:
			return cells(row, c.name, "much")
		case rule.ID == c.allowed:
			return cells(row, c.name, "Nonsense")
		}
	}
	return nil
}

// Each rule has a file that breaks it, and nothing else.
func TestEachRuleIsBrokenOnceAndAlone(t *testing.T) {
	for _, version := range []string{version12, version14} {
		seen := map[string]bool{}
		for _, rule := range Rules(version) {
			if seen[rule.ID] || rule.Text == "" {
				t.Errorf("%s: the rule is there twice, or says nothing: %+v", rule.ID, rule)
			}
			seen[rule.ID] = true
			t.Run(version+" "+rule.ID, func(t *testing.T) {
				content := []byte(nil)
				if rule.ID == ruleWidth {
					content = append(rightFile(version).bytes(t), "one,two\n"...)
				} else {
					change := mistake(rule)
					if change == nil {
						t.Fatal("no file breaks the rule")
					}
					f := rightFile(version)
					change(f)
					content = f.bytes(t)
				}
				options := Options{Version: version}
				if rule.ID == "BilledCost-C-007-M" {
					options.Payable = payable
				}
				got, err := Check(bytes.NewReader(content), options)
				if err != nil {
					t.Fatal(err)
				}
				broken := []string{}
				for _, v := range got {
					broken = append(broken, v.Rule)
				}
				want := []string{rule.ID}
				if version == version14 {
					want = append(want, besides14[rule.ID]...)
				}
				if diff := cmp.Diff(want, broken); diff != "" {
					t.Errorf("rules broken (-want +got):\n%s\n%v", diff, got)
				}
			})
		}
		for id := range mistakes {
			if !seen[id] && version == version12 && !strings.Contains(id, "1.4") {
				t.Errorf("there is a mistake for %s, which is no rule", id)
			}
		}
	}
}

func TestARightFileBreaksNoRule(t *testing.T) {
	for _, version := range []string{version12, version14} {
		got, err := Check(bytes.NewReader(rightFile(version).bytes(t)), Options{Version: version, Payable: payable})
		if err != nil || len(got) != 0 {
			t.Errorf("%s: violations = %v, %v", version, got, err)
		}
	}
}

// What 1.2 lets a Correction do, 1.4 doesn't; a column of one is unknown to the
// other.
func TestVersionsDiffer(t *testing.T) {
	f := rightFile(version12)
	f.set(correctionRow, "ListCost", "-0.5")
	got12, err := Check(bytes.NewReader(f.bytes(t)), Options{Version: version12})
	if err != nil {
		t.Fatal(err)
	}
	got14, err := Check(bytes.NewReader(f.bytes(t)), Options{Version: version14})
	if err != nil {
		t.Fatal(err)
	}
	rules := func(violations []Violation) []string {
		list := []string{}
		for _, v := range violations {
			list = append(list, v.Column+" "+v.Rule)
		}
		return list
	}
	if diff := cmp.Diff([]string{}, rules(got12)); diff != "" {
		t.Errorf("1.2 (-want +got):\n%s", diff)
	}
	want := []string{
		"ProviderName ColumnHandling-A-010-M", "PublisherName ColumnHandling-A-010-M", "ServiceProviderName ServiceProviderName-1.4-present",
		"HostProviderName HostProviderName-1.4-present", "ListCost ListUnitPrice-C-010-C",
	}
	if diff := cmp.Diff(want, rules(got14)); diff != "" {
		t.Errorf("1.4 (-want +got):\n%s", diff)
	}
}

func TestViolationsSayWhere(t *testing.T) {
	f := rightFile(version12)
	f.set(creditRow, "BilledCost", "ten")
	got, err := Check(bytes.NewReader(f.bytes(t)), Options{Version: version12, Payable: payable})
	if err != nil {
		t.Fatal(err)
	}
	want := []Violation{{Line: 4, Column: "BilledCost", Rule: "BilledCost-C-001-M", Value: "ten"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
	if text := got[0].String(); text != `line 4: BilledCost-C-001-M: BilledCost "ten"` {
		t.Errorf("text = %s", text)
	}
}

func TestCheckEnds(t *testing.T) {
	f := rightFile(version12)
	f.rows = slices.Repeat([]map[string]string{{"BilledCost": "x"}}, maxViolations)
	got, err := Check(bytes.NewReader(f.bytes(t)), Options{Version: version12})
	if err != nil || len(got) != maxViolations {
		t.Errorf("%d violations, %v, want %d", len(got), err, maxViolations)
	}
	if _, err := Check(strings.NewReader("a\n\"b"), Options{Version: version12}); !errors.As(err, new(*csv.ParseError)) {
		t.Errorf("error = %v, want a csv.ParseError", err)
	}
	for _, test := range []struct{ file, version string }{{"", version12}, {"a\n", "1.3"}} {
		if _, err := Check(strings.NewReader(test.file), Options{Version: test.version}); err == nil {
			t.Errorf("%q as %s was checked", test.file, test.version)
		}
	}
}

// Nothing that a cell can hold makes the check fail.
func FuzzCheck(f *testing.F) {
	f.Add(rightFile(version12).bytes(f))
	f.Add(rightFile(version14).bytes(f))
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, version := range []string{version12, version14} {
			costtest.Within(t, costtest.Time, 64<<20+4<<10*uint64(len(content)), func() {
				got, err := Check(bytes.NewReader(content), Options{Version: version, Payable: payable})
				if len(got) > maxViolations {
					t.Errorf("%d violations, %v", len(got), err)
				}
			})
		}
	})
}
