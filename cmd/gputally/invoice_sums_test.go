package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/rating"
)

// Every row adds up to its total, every column to its sum, and the list values
// to the capacity's, cent for cent.
func TestSumTableAddsUp(t *testing.T) {
	effects := func(list, profile, energy string) rating.Effects {
		return rating.Effects{List: amount(list), Profile: amount(profile), Energy: amount(energy)}
	}
	month := &invoice.Month{
		Period: "2026-10", Currency: "USD",
		Invoices: []invoice.Invoice{
			{Tenant: "ml", GPUHours: "1000.004000000", Buckets: invoice.HeldHours{Idle: "100.000400000"}, Effects: effects("2490.009960000", "-100.125", "3.333333333"), Total: "2393.22"},
			{Tenant: "(platform)", GPUHours: "1.000000000", Buckets: invoice.HeldHours{Idle: "0.000000000"}, Effects: effects("2.494", "0", "0.004"), Total: "2.50"},
		},
		Platform: invoice.Platform{GPUHours: "10.000000000", List: "24.904", TenantsList: "2492.50396", CapacityList: "2517.40796"},
	}
	want := [][]string{
		{"ml", "1 000.00", "10.0 %", "2 490.01", "-100.12", "3.33", "0.00", "2 393.22", ""},
		{`"(platform)"`, "1.00", "0.0 %", "2.49", "0.00", "0.00", "0.01", "2.50", ""},
		{"all tenants", "", "", "2 492.50", "-100.12", "3.33", "0.01", "2 395.72", ""},
		{"(platform)", "10.00", "", "24.90", "", "", "", "", "list value that nobody pays"},
		{"rounding", "", "", "0.01", "", "", "", "", "of quantities, and to cents"},
		{"capacity", "", "", "2 517.41", "", "", "", "", "list value of all there is, as in C7"},
	}
	if diff := cmp.Diff(want, sumTable(month).rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if got := platformKeeps(&invoice.Month{Platform: invoice.Platform{List: "24.905", Distribution: "-4.9"}}); got != "20.00" {
		t.Errorf("the platform keeps %s, want 20.00", got)
	}
	if !sumOf("1", "x").Equal(decimal.NewFromInt(1)) {
		t.Error("what is no decimal counts")
	}
}

// The list values of all tenants are C7's, rounded once, however many parts of a
// cent the tenants' own have; what stands above them adds up to them.
func TestSumTableSaysWhatC7Says(t *testing.T) {
	month := &invoice.Month{Currency: "USD", Platform: invoice.Platform{List: "0", TenantsList: "3.012", CapacityList: "3.012"}}
	for _, tenant := range []string{"a", "b", "c"} {
		month.Invoices = append(month.Invoices, invoice.Invoice{Tenant: tenant, Effects: rating.Effects{List: amount("1.004")}, Total: "1.00"})
	}
	rows := sumTable(month).rows
	sum := decimal.Zero
	for _, row := range rows[:3] {
		sum = sum.Add(amount(row[3]))
		if across := amount(row[3]).Add(amount(row[4])).Add(amount(row[5])).Add(amount(row[6])); !across.Equal(amount(row[7])) {
			t.Errorf("%v doesn't add up", row)
		}
	}
	if all := rows[3][3]; all != cents(amount(month.Platform.TenantsList)) || !sum.Equal(amount(all)) {
		t.Errorf("all tenants %s, the rows sum to %s, C7 says %s", all, sum, month.Platform.TenantsList)
	}
}
