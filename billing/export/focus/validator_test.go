package focus_test

import (
	"bytes"
	"encoding/xml"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/billing/export/focus"
	"github.com/gputally/gputally/internal/pythontest"
)

// criteria are those of the published validator that hold for a platform with
// a price list, contracts, tenants as sub accounts, measured usage,
// reservations and tags. The others: zones and regions, provisioned resources
// (rows are sums over GPUs), commitment discounts, other currencies.
var criteria = []string{
	"ACCOUNT_NAMING_SUPPORTED", "CAPACITY_RESERVATION_SUPPORTED", "MULTIPLE_PRICING_CATEGORIES_SUPPORTED",
	"MULTIPLE_SUB_ACCOUNT_TYPES_SUPPORTED", "NEGOTIATED_PRICING_SUPPORTED", "PUBLIC_PRICE_LIST_SUPPORTED",
	"SUB_ACCOUNT_SUPPORTED", "TAGGING_SUPPORTED", "UNIT_PRICING_SUPPORTED", "USAGE_MEASUREMENT_SUPPORTED",
}

// verdict is what the validator said of a file.
type verdict struct {
	checks int
	failed []string // rules, sorted
	errors []string
}

func validate(t *testing.T, file []byte) verdict {
	t.Helper()
	program, packages := pythontest.Find(t, "focus-validator")
	path, report := filepath.Join(t.TempDir(), "focus.csv"), filepath.Join(t.TempDir(), "report.xml")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "--data-file", path, "--validate-version", "1.2.0.1", "--block-download",
		"--applicability-criteria", strings.Join(criteria, ","), "--output-type", "unittest", "--output-destination", report)
	cmd.Dir = packages // its list of currencies has a relative path
	output, err := cmd.CombinedOutput()
	text, readErr := os.ReadFile(report)
	if readErr != nil {
		t.Fatalf("focus-validator left no report: %v, %v\n%s", err, readErr, output)
	}
	return parseReport(t, text)
}

func parseReport(t *testing.T, text []byte) verdict {
	t.Helper()
	type testCase struct {
		Name     string     `xml:"name,attr"`
		Failures []struct{} `xml:"failure"`
		Errors   []struct{} `xml:"error"`
		Skipped  []struct{} `xml:"skipped"`
	}
	var report struct {
		Suites []struct {
			Cases []testCase `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &report); err != nil {
		t.Fatalf("%v in %.2000s", err, text)
	}
	var v verdict
	for _, suite := range report.Suites {
		for _, c := range suite.Cases {
			rule, _, _ := strings.Cut(c.Name, " ")
			if len(c.Skipped) == 0 {
				v.checks++
			}
			if len(c.Failures) > 0 {
				v.failed = append(v.failed, rule)
			}
			if len(c.Errors) > 0 {
				v.errors = append(v.errors, rule)
			}
		}
	}
	slices.Sort(v.failed)
	return v
}

// Checks that no file of more than one row passes, since the validator's rules
// lost the conditions that their texts state.
var (
	// InvoiceId is to be null in every row, and in none.
	ofNone = []string{"InvoiceId-C-005-C"}
	ofSome = []string{"InvoiceId-C-000-O", "InvoiceId-C-003-C", "InvoiceId-C-004-C", "InvoiceId-C-005-C"}
	// CapacityReservationStatus is to be null in every row, and in none.
	ofReservations = []string{
		"CapacityReservationStatus-C-000-C", "CapacityReservationStatus-C-002-C",
		"CapacityReservationStatus-C-003-C", "CapacityReservationStatus-C-004-C",
	}
	// Without the mode for it, the validator finds columns missing that
	// criteria which don't hold would want, and names that aren't ASCII.
	ofColumns = []string{
		"ConsumedQuantity-C-000-C", "ConsumedQuantity-C-003-C", "ConsumedQuantity-C-005-C",
		"CostAndUsage-D-046-C", "CostAndUsage-D-047-C", "CostAndUsage-D-048-C", "CostAndUsage-D-050-C", "CostAndUsage-D-051-C",
		"CostAndUsage-D-052-C", "CostAndUsage-D-054-C", "CostAndUsage-D-055-C", "CostAndUsage-D-056-C",
		"PricingCurrencyListUnitPrice-C-003-M", "PricingCurrencyListUnitPrice-C-007-C",
	}
	ofText = []string{"ChargeDescription-C-000-M", "ChargeDescription-C-002-M", "SubAccountId-C-000-C", "SubAccountId-C-002-M", "SubAccountName-C-000-C", "SubAccountName-C-002-M"}
	// errorsOfColumns are checks that could not run for want of those columns.
	errorsOfColumns = []string{
		"ConsumedQuantity-C-004-C", "ConsumedQuantity-C-006-C", "PricingCurrencyContractedUnitPrice-C-001-M",
		"PricingCurrencyContractedUnitPrice-C-002-M", "PricingCurrencyEffectiveCost-C-001-M", "PricingCurrencyEffectiveCost-C-002-M",
		"PricingCurrencyEffectiveCost-C-003-M", "PricingCurrencyEffectiveCost-C-004-M", "PricingCurrencyListUnitPrice-C-001-M",
		"PricingCurrencyListUnitPrice-C-002-M", "PricingCurrencyListUnitPrice-C-004-C", "PricingCurrencyListUnitPrice-C-005-C",
		"PricingCurrencyListUnitPrice-C-008-M",
	}
)

func TestThePublishedValidator(t *testing.T) {
	month := rate(t, parse(t, hostileBook), "2026-03", hostileRows())
	april := rate(t, parse(t, hostileBook), "2026-04", hostileRows())
	corrected := rate(t, parse(t, hostileBook), "2026-03", hostileRows()[95:])
	invoices := func(yield func(focus.Bill, error) bool) {
		for bill := range april.bills(focus.KindInvoice) {
			yield(bill, nil)
		}
		for _, tenant := range []string{"+a", "12345", "kolkata"} {
			yield(month.note(tenant, corrected, "2026-04"), nil)
		}
	}
	for _, test := range []struct {
		name      string
		validator bool
		bills     iter.Seq2[focus.Bill, error]
		want      [][]string
		errors    []string
	}{
		{"drafts", true, month.bills(focus.KindDraft), [][]string{ofReservations, ofNone}, nil},
		{"invoices and notes", true, invoices, [][]string{ofReservations, ofSome}, nil},
		{"plain", false, month.bills(focus.KindDraft), [][]string{ofReservations, ofNone, ofColumns, ofText}, errorsOfColumns},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			if _, err := focus.Write(&out, focus.Options{Validator: test.validator}, test.bills); err != nil {
				t.Fatal(err)
			}
			got := validate(t, out.Bytes())
			if got.checks != 271 {
				t.Errorf("%d checks ran, want 271", got.checks)
			}
			want := slices.Sorted(slices.Values(slices.Concat(test.want...)))
			if diff := cmp.Diff(want, got.failed); diff != "" {
				t.Errorf("failed checks (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.errors, got.errors); diff != "" {
				t.Errorf("checks in error (-want +got):\n%s", diff)
			}
		})
	}
}
