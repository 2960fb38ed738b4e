package rating

import (
	"strings"
	"testing"
	"time"
)

// Reports of a model that disagree about a profile's number of slices are billed
// each by its own, and named: nobody's month fails for them.
func TestProfileOfTwoSizesIsBilledApart(t *testing.T) {
	book := parseBook(t, `currency: USD
versions:
- effective: 2026-01-01T00:00:00Z
  models: {H100: {gpu_hour: "7.00", profiles: {1g.10gb: "0.50"}}}
`)
	hour := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	row := Row{Hour: hour, Tenant: "a", Model: "H100", Profile: "1g.10gb", ProfileSlices: 1, Slices: 7, Bucket: "active", SliceMS: 3_600_000}
	other := row
	other.ProfileSlices, other.SliceMS = 2, 7_200_000
	result, err := Rate(book, Period{2026, time.March}, []Row{row, other, row}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(result); err != nil {
		t.Error(err)
	}
	invoice := result.Invoices[0]
	// Two hours of one slice, and one hour of two slices, at 0.50 each.
	if got := invoice.Total.String(); got != "1.5" {
		t.Errorf("total %s, want 1.5", got)
	}
	named := map[string]string{}
	for _, line := range invoice.Lines {
		if line.Effect == EffectList {
			named[line.ReportedAs] = line.Quantity.Decimal.String()
			if !strings.Contains(line.Detail, line.ReportedAs) {
				t.Errorf("the line doesn't name what was reported: %q", line.Detail)
			}
		}
	}
	if len(named) != 2 || named["1/7"] != "0.285714286" || named["2/7"] != "0.285714286" {
		t.Errorf("list lines by size: %v", named)
	}
	if err := Billable([]Row{row, other}); err != nil {
		t.Errorf("not billable: %v", err)
	}
}
