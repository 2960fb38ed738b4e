package invoice_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/invoice/invoicetest"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

// topic is the length and the chain of the decisions' topic.
func topic(r interface{ View(func(*decisions.State)) }) (length int64, chain string) {
	r.View(func(s *decisions.State) { length, chain = s.Next(), s.Chain() })
	return length, chain
}

func TestF1ARefusedFinaliseDecidesNothing(t *testing.T) {
	r, _ := register(t)
	_, err := r.Finalise(t.Context(), invoice.FinaliseRequest{Period: "2026-03", Who: "alice", Approved: true})
	if err == nil {
		t.Fatal("finalised without approval")
	}
	if length, _ := topic(r.Decisions); length != 0 {
		t.Errorf("%d records of a refused request, want none", length)
	}
}

func TestF4AnApprovalIsOfWhatWasSeen(t *testing.T) {
	r, _ := register(t)
	seen := draft(t, r, "b")
	if _, err := r.Publish(t.Context(), parse(t, strings.ReplaceAll(registerBook, `"2.49"`, `"24.9"`)), "mallory", ""); err != nil {
		t.Fatal(err)
	}
	length, chain := topic(r.Decisions)
	_, err := r.Approve(t.Context(), invoice.ApproveRequest{Period: "2026-03", Tenant: "b", Who: "auditor", Expect: seen.Content})
	now := draft(t, r, "b")
	var moved *invoice.MovedError
	if !errors.As(err, &moved) {
		t.Fatalf("approved what nobody saw: %v", err)
	}
	want := invoice.MovedError{Number: now.Number, Expected: seen.Content, Content: now.Content, Total: now.Total.String(), Currency: "USD"}
	if diff := cmp.Diff(want, *moved); diff != "" || now.Content == seen.Content {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
	if l, c := topic(r.Decisions); l != length || c != chain {
		t.Errorf("the refusal appended %d records", l-length)
	}
	done, err := r.Approve(t.Context(), invoice.ApproveRequest{Period: "2026-03", Tenant: "b", Who: "auditor", Expect: now.Content[:16]})
	if err != nil || done.Total != now.Total.String() || done.Currency != "USD" || done.Content != now.Content {
		t.Errorf("approval = %+v, %v, want it of %s", done, err, now.Content)
	}
}

func TestF2WithoutUsageIsMeantOrRefused(t *testing.T) {
	r, db := register(t)
	february := invoice.FinaliseRequest{Period: "2026-02", Who: "mallory"}
	if done, err := r.Finalise(t.Context(), february); !errors.Is(err, invoice.ErrNoUsage) || len(done) > 0 {
		t.Fatalf("Finalise = %+v, %v, want %v", done, err, invoice.ErrNoUsage)
	}
	if length, _ := topic(r.Decisions); length != 0 {
		t.Errorf("%d records of a refused month", length)
	}
	// History that is imported now is billed as in an untouched ledger.
	hour := march.Add(-48 * time.Hour)
	rows := []usagetest.GPUHour{gpuHour(hour, "GPU-1", usagetest.Owner{Tenant: "b", Active: 25_200_000}), gpuHour(hour, "GPU-3")}
	usagetest.Insert(t, db, rows...)
	untouched := emptyLedger(t)
	fleet(t, untouched)
	usagetest.Insert(t, untouched, rows...)
	other := invoicetest.Open(t, untouched, parse(t, registerBook), invoicetest.Broker(t))
	want, err := other.Finalise(t.Context(), february)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Finalise(t.Context(), february)
	if diff := cmp.Diff(want, got); err != nil || diff != "" || len(got) != 2 {
		t.Errorf("February (-untouched +refused before): %v\n%s", err, diff)
	}
	january := invoice.FinaliseRequest{Period: "2026-01", Who: "finance", WithoutUsage: true}
	if done, err := r.Finalise(t.Context(), january); err != nil || len(done) != 1 || done[0].Total != "1.00" {
		t.Errorf("a month that is meant: %+v, %v, want a's minimum", done, err)
	}
}

// A tenant in whose own month the ledger has no hour is refused, and no other.
func TestF2ATenantsOwnMonthNeedsAnHour(t *testing.T) {
	db := emptyLedger(t)
	usagetest.Insert(t, db, gpuHour(march, "GPU-1", usagetest.Owner{Tenant: "la", Active: 25_200_000}))
	r := invoicetest.Open(t, db, parse(t, strings.Replace(registerBook, "currency: USD",
		"currency: USD\ntenants: {la: {time_zone: America/Los_Angeles}}", 1)), invoicetest.Broker(t))
	done, err := r.Finalise(t.Context(), invoice.FinaliseRequest{Period: "2026-02", Who: "finance"})
	if len(done) != 1 || done[0].Tenant != "la" || !errors.Is(err, invoice.ErrNoUsage) {
		t.Fatalf("Finalise = %+v, %v, want la alone", done, err)
	}
	var frozen []decisions.Decided[decisions.Freeze]
	r.Decisions.View(func(s *decisions.State) { frozen = s.Freezes() })
	if len(frozen) != 1 || frozen[0].Body.To != march.Add(8*time.Hour) {
		t.Errorf("frozen %+v, want la's February alone", frozen)
	}
}

// A reservation that could never be supplied, of a tenant that used nothing, is
// no invoice over 0.00.
func TestF2AReservationNeverSuppliedIsNoInvoice(t *testing.T) {
	db := emptyLedger(t)
	fleet(t, db)
	r := invoicetest.Open(t, db, parse(t, strings.Replace(registerBook, "  tenants:\n",
		"  tenants:\n    never: {reserved: [{model: H100, gpus: \"2000\", unused_gpu_hour: \"1.10\"}]}\n", 1)), invoicetest.Broker(t))
	for _, i := range finalise(t, r) {
		if i.Tenant == "never" {
			t.Errorf("%s over %s", i.Number, i.Total)
		}
	}
	_, err := r.Finalise(t.Context(), invoice.FinaliseRequest{Period: "2026-03", Tenants: []string{"never"}, Who: "finance"})
	if !errors.Is(err, invoice.ErrNotFound) {
		t.Errorf("by name: %v, want %v", err, invoice.ErrNotFound)
	}
}
