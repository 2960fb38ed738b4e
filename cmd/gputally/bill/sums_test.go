package bill

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/cli"
)

// figure is a decimal of a document.
func figure(text string) (m invoice.Money) {
	if err := m.UnmarshalText([]byte(text)); err != nil {
		panic(err)
	}
	return m
}

// Every row adds up to its total, every column to its sum, and the list values
// to the capacity's, cent for cent.
func TestSumTableAddsUp(t *testing.T) {
	effects := func(list, profile, energy string) rating.Effects {
		return rating.Effects{List: cli.Amount(list), Profile: cli.Amount(profile), Energy: cli.Amount(energy)}
	}
	month := &invoice.Month{
		Period: "2026-10", Currency: "USD",
		Invoices: []invoice.Invoice{
			{
				Tenant: "ml", GPUHours: figure("1000.004000000"), Buckets: rating.HeldHours{Idle: figure("100.000400000")},
				Effects: effects("2490.009960000", "-100.125", "3.333333333"), Total: figure("2393.22"),
			},
			{
				Tenant: "(platform)", GPUHours: figure("1.000000000"), Buckets: rating.HeldHours{Idle: figure("0.000000000")},
				Effects: effects("2.494", "0", "0.004"), Total: figure("2.50"),
			},
		},
		Platform: invoice.Platform{
			GPUHours: figure("10.000000000"), List: figure("24.904"),
			TenantsList: figure("2492.50396"), CapacityList: figure("2517.40796"),
		},
	}
	want := [][]string{
		{"ml", "1 000.00", "10.0 %", "2 490.01", "-100.12", "3.33", "0.00", "2 393.22", ""},
		{`"(platform)"`, "1.00", "0.0 %", "2.49", "0.00", "0.00", "0.01", "2.50", ""},
		{"all tenants", "", "", "2 492.50", "-100.12", "3.33", "0.01", "2 395.72", ""},
		{"(platform)", "10.00", "", "24.90", "", "", "", "", "list value, not billed"},
		{"rounding", "", "", "0.01", "", "", "", "", "of quantities, and to cents"},
		{"capacity", "", "", "2 517.41", "", "", "", "", "list value of the capacity, as in C7"},
	}
	if diff := cmp.Diff(want, SumTable(month).Rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if got := platformKeeps(&invoice.Month{Platform: invoice.Platform{
		List:         figure("24.905"),
		Distribution: figure("-4.9"),
	}}); got != "20.00" {
		t.Errorf("the platform keeps %s, want 20.00", got)
	}
}

// The list values of all tenants are C7's, rounded once, however many parts of a
// cent the tenants' own have; what stands above them adds up to them.
func TestSumTableSaysWhatC7Says(t *testing.T) {
	month := &invoice.Month{
		Currency: "USD",
		Platform: invoice.Platform{List: figure("0"), TenantsList: figure("3.012"), CapacityList: figure("3.012")},
	}
	for _, tenant := range []string{"a", "b", "c"} {
		month.Invoices = append(month.Invoices,
			invoice.Invoice{Tenant: tenant, Effects: rating.Effects{List: cli.Amount("1.004")}, Total: figure("1.00")})
	}
	rows := SumTable(month).Rows
	sum := decimal.Zero
	for _, row := range rows[:3] {
		sum = sum.Add(cli.Amount(row[3]))
		if across := cli.Amount(row[3]).Add(cli.Amount(row[4])).Add(cli.Amount(row[5])).Add(
			cli.Amount(row[6])); !across.Equal(cli.Amount(row[7])) {
			t.Errorf("%v doesn't add up", row)
		}
	}
	if all := rows[3][3]; all != cli.Cents(month.Platform.TenantsList.Decimal) || !sum.Equal(cli.Amount(all)) {
		t.Errorf("all tenants %s, the rows sum to %s, C7 says %s", all, sum, month.Platform.TenantsList)
	}
}
