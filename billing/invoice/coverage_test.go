package invoice_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/invoice/invoicetest"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

func TestC7dEveryHourIsInvoicedOrUnbilled(t *testing.T) {
	r, db := register(t)
	coverage := func() invoice.Coverage {
		c, err := r.Coverage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return *c
	}
	if diff := cmp.Diff(invoice.Coverage{Unbilled: 10}, coverage()); diff != "" {
		t.Errorf("before (-want +got):\n%s", diff)
	}
	finalise(t, r, "a")
	if diff := cmp.Diff(invoice.Coverage{Invoiced: 5, Unbilled: 5}, coverage()); diff != "" {
		t.Errorf("with a's (-want +got):\n%s", diff)
	}
	usagetest.Insert(t, db, later(gpuHour(march, "GPU-1")), gpuHour(march.Add(9*time.Hour), "GPU-1", usagetest.Owner{Tenant: "a", Active: 1}))
	if diff := cmp.Diff(invoice.Coverage{Invoiced: 4, Unbilled: 5, Pending: 2, Adjustments: 1}, coverage()); diff != "" {
		t.Errorf("after late data (-want +got):\n%s", diff)
	}
	usagetest.Insert(t, db, later(gpuHour(march.Add(time.Hour), "GPU-1", usagetest.Owner{Tenant: "a", Active: 1})))
	if diff := cmp.Diff(invoice.Coverage{Invoiced: 3, Unbilled: 5, Pending: 3, Adjustments: 1}, coverage()); diff != "" {
		t.Errorf("after another usage of an invoiced hour (-want +got):\n%s", diff)
	}
}

// publishedUnder starts an epoch of a mapping, as the ledger does.
func publishedUnder(t *testing.T, db *store.DB, epoch uint32, effective, text string) {
	t.Helper()
	sum := decisions.Digest([]byte(text))
	err := db.Exec(t.Context(), `INSERT INTO epochs (epoch, rules, mapping, tenants, effective, created_at, claim) VALUES (?, 1, ?, ?, ?, now64(3), ?)`,
		epoch, sum, text, effective, "1 "+sum)
	if err != nil {
		t.Fatal(err)
	}
}

func mappingLine(epoch uint32, sha256, effective, who string) string {
	return fmt.Sprintf("%d %s from %s by %s", epoch, sha256, effective, who)
}

// mappingsOf names each mapping by its text's SHA-256: the fold has compared the
// two, and doesn't keep the text.
func mappingsOf(log *decisions.Log) (lines []string) {
	log.View(func(s *decisions.State) {
		for _, m := range s.Mappings() {
			lines = append(lines, mappingLine(m.Body.Epoch, m.Body.SHA256, m.Body.Effective.Format("2006-01-02T15"), m.Who))
		}
	})
	return lines
}

func wantMappings(t *testing.T, log *decisions.Log, want ...string) {
	t.Helper()
	if err := log.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, mappingsOf(log)); diff != "" {
		t.Errorf("mappings (-want +got):\n%s", diff)
	}
}

// R6, R15: the decisions hold the mapping of every epoch once, the default one
// with its empty text, whoever looks and however often; of an epoch that was
// started twice the one in force.
func TestR6MappingsAreNotedOnce(t *testing.T) {
	db := emptyLedger(t)
	fleet(t, db)
	broker := invoicetest.Broker(t)
	r := invoicetest.Open(t, db, parse(t, registerBook), broker)
	note := func(r *invoicetest.Register, want int) {
		t.Helper()
		if n, err := r.NoteMappings(t.Context()); err != nil || n != want {
			t.Errorf("noted %d mappings, %v; want %d", n, err, want)
		}
	}
	note(r, 0)
	publishedUnder(t, db, 1, "1971-01-01 00:00:00", "")
	const a, b = "versions: []\n", "versions: [] # another\n"
	publishedUnder(t, db, 2, "2026-03-01 00:00:00", a)
	publishedUnder(t, db, 2, "2026-03-01 00:00:00", b)
	inForce := a
	if decisions.Digest([]byte(b)) < decisions.Digest([]byte(a)) {
		inForce = b
	}
	note(r, 2)
	note(r, 0)
	another := invoicetest.Open(t, db, parse(t, registerBook), broker)
	note(another, 0)
	noted := func(epoch uint32, text, effective string) string {
		return mappingLine(epoch, decisions.Digest([]byte(text)), effective, "gputally")
	}
	want := []string{noted(1, "", "1971-01-01T00"), noted(2, inForce, "2026-03-01T00")}
	wantMappings(t, another.Decisions, want...)

	// What is finalised rests on a mapping that is noted before it.
	publishedUnder(t, db, 3, "2026-03-01 00:00:00", b+"\n")
	finalise(t, another)
	want = append(want, noted(3, b+"\n", "2026-03-01T00"))
	wantMappings(t, r.Decisions, want...)
	note(r, 0)
}
