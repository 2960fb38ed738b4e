package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/billing/prices"
)

// TestVerifyLooksAtLocalMonths: the first hours of a UTC month are the month
// before in America, and the last ones the month after in Asia (R17).
func TestVerifyLooksAtLocalMonths(t *testing.T) {
	zone := func(name string) *time.Location {
		z, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	first := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	last := time.Date(2026, 10, 31, 23, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		book prices.Book
		want []string
	}{
		{"all in UTC", prices.Book{Zone: time.UTC}, []string{"2026-10"}},
		{"the platform behind", prices.Book{Zone: zone("America/Los_Angeles")}, []string{"2026-09", "2026-10"}},
		{"a tenant ahead", prices.Book{Zone: time.UTC, TenantZones: map[string]*time.Location{"t": zone("Asia/Kolkata")}}, []string{"2026-10", "2026-11"}},
	} {
		if diff := cmp.Diff(c.want, localMonths([]string{"2026-10"}, first, last, &c.book)); diff != "" {
			t.Errorf("%s: months (-want +got):\n%s", c.name, diff)
		}
	}
}
