package projection

import (
	"strings"
	"testing"

	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/tables"
)

// Rows that somebody added, out of sight of what is compared row by row: an
// invoice at an offset yet to come, usage under a tenant that has no invoice.
func TestTheCheckNamesWhatWasAdded(t *testing.T) {
	s, db := newScene(t), storetest.Open(t)
	s.fill()
	p := s.projection(db)
	project(t, p)
	ghost := s.invoiceOf("ghost", "1.00", s.put(copyOf(1, 1)))
	row, err := invoiceRowOf(1_000_000, "carol", start, &ghost, "{}")
	if err != nil {
		t.Fatal(err)
	}
	if err := tables.Insert(testContext(t), db, tableInvoices, row); err != nil {
		t.Fatal(err)
	}
	ghost.Number = decisions.Number("2026-10", "ml", 0)
	usage := usageRowOf(&ghost, &rating.Row{Hour: start, Model: "H100", Slices: 7, Bucket: "active", SliceMS: 1})
	if err := tables.Insert(testContext(t), db, tableUsage, usage); err != nil {
		t.Fatal(err)
	}
	found := strings.Join(checked(t, p).Findings, "\n")
	for _, want := range []string{
		`invoices: has rows of "2026-10-ghost-r0"`, `invoice_usage: has rows of "2026-10-ml-r0" under tenant "ghost"`,
	} {
		if !strings.Contains(found, want) {
			t.Errorf("found %s\nwant %q", found, want)
		}
	}
}
