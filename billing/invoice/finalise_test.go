package invoice_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/invoice/invoicetest"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/usage/usagetest"
	"github.com/gputally/gputally/internal/wire"
)

func TestR20FinalisedInvoicesAreTheDraftsAsTheyStood(t *testing.T) {
	r, _ := register(t)
	before, err := r.List(t.Context(), "2026-03")
	if err != nil {
		t.Fatal(err)
	}
	done := finalise(t, r)
	if len(done) != 2 || done[0].Number != "2026-03-a-r0" || done[0].Already || done[1].Number != "2026-03-b-r0" {
		t.Fatalf("finalised %+v, want a and b", done)
	}
	after, err := r.List(t.Context(), "2026-03")
	if err != nil {
		t.Fatal(err)
	}
	for i := range before.Invoices {
		before.Invoices[i].Status = invoice.StatusFinalised
	}
	// A document's bytes don't have what evidence rates again.
	notInBytes := cmpopts.IgnoreFields(invoice.Line{}, "TierAbove", "ReportedAs")
	if diff := cmp.Diff(before, after, notInBytes, cmp.Comparer(func(a, b decimal.Decimal) bool { return a.Equal(b) })); diff != "" {
		t.Errorf("month (-draft +finalised):\n%s", diff)
	}
	content := document(t, r, "2026-03-a-r0")
	again := finalise(t, r)
	if !again[0].Already || again[0].Content != done[0].Content || !bytes.Equal(content, document(t, r, "2026-03-a-r0")) {
		t.Errorf("finalising again came to %+v", again)
	}
	for _, d := range done {
		verdict, err := r.Verify(t.Context(), d.Number)
		if err != nil {
			t.Fatal(err)
		}
		if !verdict.Same || verdict.Pending {
			t.Errorf("verdict %+v, want the same bytes and nothing pending", verdict)
		}
	}
}

func TestR3OpenHoursAreNotFinalised(t *testing.T) {
	r, _ := register(t)
	r.ClosedUntil = time.Date(2026, 3, 31, 23, 0, 0, 0, time.UTC)
	_, err := r.Finalise(t.Context(), invoice.FinaliseRequest{Period: "2026-03", Who: "finance"})
	var open *invoice.OpenHoursError
	if !errors.As(err, &open) || !strings.Contains(err.Error(), "2026-04-01T00:00:00Z") {
		t.Fatalf("Finalise = %v, want the end of the month that is open", err)
	}
	month, err := r.List(t.Context(), "2026-03")
	if err != nil || month.Invoices[0].Status != invoice.StatusDraft {
		t.Errorf("after a refusal: %v, %+v", err, month)
	}
}

func TestR17NothingIsFrozenWhereNothingCanBeFinalised(t *testing.T) {
	db := emptyLedger(t)
	fleet(t, db)
	book := strings.Replace(registerBook, "2026-01-01", "2026-03-01", 1)
	r := invoicetest.Open(t, db, parse(t, book), invoicetest.Broker(t))
	for name, q := range map[string]invoice.FinaliseRequest{
		"month before the ledger":   {Period: "2026-02", Who: "finance"},
		"tenant nobody knows":       {Period: "2026-03", Tenants: []string{"nobody"}, Who: "finance"},
		"one of two tenants":        {Period: "2026-03", Tenants: []string{"b", "nobody"}, Who: "finance"},
		"tenant with a later month": {Period: "2026-02", Tenants: []string{"b"}, Who: "finance"},
	} {
		if done, err := r.Finalise(t.Context(), q); !errors.Is(err, invoice.ErrNotFound) || len(done) > 0 {
			t.Errorf("%s: Finalise = %+v, %v, want %v", name, done, err, invoice.ErrNotFound)
		}
	}
	r.Decisions.View(func(s *decisions.State) {
		if s.Next() != 0 {
			t.Errorf("%d records were decided by refused requests, want none", s.Next())
		}
	})
	// Terms without usage are owed (R20): a has a minimum from March on.
	done, err := r.Finalise(t.Context(), invoice.FinaliseRequest{Period: "2026-04", Who: "finance", WithoutUsage: true})
	if err != nil || len(done) != 1 || done[0].Tenant != "a" {
		t.Errorf("a month of terms alone: Finalise = %+v, %v, want a's minimum", done, err)
	}
}

func TestR17DistributionIsFrozenForThoseWhoComeLater(t *testing.T) {
	r, db := register(t)
	before, err := r.List(t.Context(), "2026-03")
	if err != nil {
		t.Fatal(err)
	}
	finalise(t, r, "a")
	usagetest.Insert(t, db, later(gpuHour(march, "GPU-1")), later(gpuHour(march.Add(4*time.Hour), "GPU-3", usagetest.Owner{Tenant: "c", Active: 25_200_000})))
	finalise(t, r)
	after, err := r.List(t.Context(), "2026-03")
	if err != nil {
		t.Fatal(err)
	}
	shares := func(month *invoice.Month) map[string]string {
		of := map[string]string{}
		for _, i := range month.Invoices {
			of[i.Tenant] = i.Effects.Distribution.String()
		}
		return of
	}
	want := shares(before)
	want["c"] = "0"
	if diff := cmp.Diff(want, shares(after)); diff != "" {
		t.Errorf("distribution (-before +after):\n%s", diff)
	}
	if want["b"] == "0" {
		t.Error("nothing was ever distributed")
	}
}

func TestR6TwoRegistersDecideEachInvoiceOnce(t *testing.T) {
	db := emptyLedger(t)
	fleet(t, db)
	b := invoicetest.Broker(t)
	registers := []*invoicetest.Register{
		invoicetest.Open(t, db, parse(t, registerBook), b), invoicetest.Open(t, db, parse(t, registerBook), b),
	}
	var mu sync.Mutex
	contents, news := map[string]map[string]bool{}, map[string]int{}
	var wait sync.WaitGroup
	for n := range 20 {
		tenant := []string{"a", "b"}[n/2%2]
		wait.Go(func() {
			done, err := registers[n%2].Finalise(t.Context(), invoice.FinaliseRequest{
				Period: "2026-03", Tenants: []string{tenant}, Who: "finance", Key: "close-march-" + tenant,
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
			if contents[done[0].Number] == nil {
				contents[done[0].Number] = map[string]bool{}
			}
			contents[done[0].Number][done[0].Content] = true
			if !done[0].Already {
				news[done[0].Number]++
			}
		})
	}
	wait.Wait()
	if diff := cmp.Diff(map[string]int{"2026-03-a-r0": 1, "2026-03-b-r0": 1}, news); diff != "" {
		t.Errorf("decided (-want +got):\n%s", diff)
	}
	for number, of := range contents {
		if len(of) != 1 {
			t.Errorf("%s has %d contents", number, len(of))
		}
	}
	_, err := registers[0].Finalise(t.Context(), invoice.FinaliseRequest{Period: "2026-03", Tenants: []string{"a"}, Who: "x", Key: "close-march-b"})
	var conflict *invoice.ConflictError
	if !errors.As(err, &conflict) {
		t.Errorf("another request with a used key: %v, want a conflict", err)
	}
}

// A tenant that can't be finalised keeps nobody else from it.
func TestOneTenantsTroubleIsNoneOfTheOthers(t *testing.T) {
	r, db := register(t)
	long := strings.Repeat("a", decisions.MaxTenantBytes+1)
	usagetest.Insert(t, db, gpuHour(march.Add(7*time.Hour), "GPU-1", usagetest.Owner{Tenant: long, Active: 1_000_000}))
	done, err := r.Finalise(t.Context(), invoice.FinaliseRequest{Period: "2026-03", Who: "finance"})
	if len(done) != 2 || done[1].Tenant != "b" || err == nil || !strings.Contains(err.Error(), "401 bytes") {
		t.Errorf("Finalise = %+v, %v, want a and b, and who is missing", done, err)
	}
}

// TestM12EveryNameCanBeInvoiced: whatever an owner calls itself, the name it is
// given fits an invoice.
func TestM12EveryNameCanBeInvoiced(t *testing.T) {
	r, db := register(t)
	names := []string{wire.Name(strings.Repeat("x", 9<<20)), wire.Name("\u202etxt.exe\x00"), wire.Name(strings.Repeat("é", 100))}
	for i, name := range names {
		usagetest.Insert(t, db, gpuHour(march.Add(7*time.Hour), fmt.Sprint("GPU-", i), usagetest.Owner{Tenant: name, Active: 1_000_000}))
	}
	for _, name := range names {
		done, err := r.Finalise(t.Context(), invoice.FinaliseRequest{Period: "2026-03", Who: "finance", Tenants: []string{name}})
		if err != nil || len(done) != 1 || done[0].Tenant != name {
			t.Errorf("Finalise of %q = %+v, %v", name, done, err)
		}
	}
}

// R17: a tenant that was given a part of frozen hours owes it, by name, too,
// though all its usage is another's by now.
func TestR17AFrozenPartIsOwedWithoutUsage(t *testing.T) {
	r, db := register(t)
	finalise(t, r, "a")
	for i := range 5 {
		usagetest.Insert(t, db, later(gpuHour(march.Add(time.Duration(i)*time.Hour), "GPU-2", usagetest.Owner{Tenant: "a", Active: 25_200_000})))
	}
	done := finalise(t, r, "b")
	if total := done[0].Total; total == "0.00" || strings.HasPrefix(total, "-") {
		t.Errorf("b's invoice comes to %s, want its part of what was free", total)
	}
}

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
