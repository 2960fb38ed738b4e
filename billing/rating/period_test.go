package rating_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
)

// TestPeriodsAreLocalMonths: the first hours of a UTC month are the month before in
// America, and the last ones the month after in Asia (R17), also beside months in which
// the ledger has no hour.
func TestPeriodsAreLocalMonths(t *testing.T) {
	zone := func(name string) *time.Location {
		z, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	hours := []time.Time{
		time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 31, 23, 0, 0, 0, time.UTC),
		time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 7, 31, 23, 0, 0, 0, time.UTC),
	}
	for _, c := range []struct {
		name string
		book prices.Book
		want string
	}{
		{"all in UTC", prices.Book{Zone: time.UTC}, "[2026-07 2026-10]"},
		{"the platform behind", prices.Book{Zone: zone("America/Los_Angeles")}, "[2026-06 2026-07 2026-09 2026-10]"},
		{
			"a tenant ahead",
			prices.Book{Zone: time.UTC, TenantZones: map[string]*time.Location{"t": zone("Asia/Kolkata")}},
			"[2026-07 2026-08 2026-10 2026-11]",
		},
	} {
		if diff := cmp.Diff(c.want, fmt.Sprint(rating.Periods(hours, c.book.Zones()))); diff != "" {
			t.Errorf("%s: months (-want +got):\n%s", c.name, diff)
		}
	}
}
