package invoice_test

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/gpuledger/gpuledger/billing/invoice"
	"github.com/gpuledger/gpuledger/billing/invoice/invoicetest"
	"github.com/gpuledger/gpuledger/billing/rating"
	"github.com/gpuledger/gpuledger/internal/decisions"
	"github.com/gpuledger/gpuledger/internal/store"
	"github.com/gpuledger/gpuledger/internal/usage/usagetest"
)

const registerBook = `currency: USD
versions:
- effective: 2026-01-01T00:00:00Z
  models: {H100: {gpu_hour: "2.49", tiers: [{above: "3", gpu_hour: "2.00"}]}}
  kwh: "0.28"
  idle_surcharge: "0.10"
  distribution: proportional
  tenants:
    a: {discount: "0.10", minimum: "1.00", reserved: [{model: H100, gpus: "2", unused_gpu_hour: "1.10"}]}
`

// fleet puts five hours of a month on three GPUs: a holds GPU-1, b GPU-2 (half
// of its second hour), GPU-3 is free.
func fleet(t *testing.T, db *store.DB) {
	t.Helper()
	for i := range 5 {
		hour := march.Add(time.Duration(i) * time.Hour)
		held := uint64(25_200_000)
		if i == 1 {
			held /= 2
		}
		usagetest.Insert(t, db,
			gpuHour(hour, "GPU-1", usagetest.Owner{Tenant: "a", Project: "p", Workload: "train", Active: 20_000_000, Idle: 5_200_000, EnergyMJ: 1_800_000_000}),
			gpuHour(hour, "GPU-2", usagetest.Owner{Tenant: "b", Workload: "serve", Active: held, EnergyMJ: 900_000_001}),
			gpuHour(hour, "GPU-3"),
		)
	}
}

func gpuHour(hour time.Time, gpu string, owners ...usagetest.Owner) usagetest.GPUHour {
	for i := range owners {
		owners[i].Leaf = gpu
	}
	return usagetest.GPUHour{Hour: hour, GPU: gpu, Node: "n1", Model: "H100", Slices: 7, Version: 1, Inputs: 360, Epoch: 1, Owners: owners}
}

// later is a GPU-hour as it is recomputed from more data.
func later(h usagetest.GPUHour) usagetest.GPUHour {
	h.Version, h.Inputs = h.Version+1, h.Inputs+1
	return h
}

func register(t *testing.T) (*invoicetest.Register, *store.DB) {
	t.Helper()
	db := emptyLedger(t)
	fleet(t, db)
	return invoicetest.Open(t, db, parse(t, registerBook), invoicetest.Broker(t)), db
}

func finalise(t *testing.T, r *invoicetest.Register, tenants ...string) []invoice.Decided {
	t.Helper()
	done, err := r.Finalise(t.Context(), invoice.FinaliseRequest{Period: "2026-03", Tenants: tenants, Who: "finance"})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func document(t *testing.T, r *invoicetest.Register, number string) []byte {
	t.Helper()
	content, err := r.Document(t.Context(), number)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// R20: a finalised invoice is the draft as it stood, and follows from its own
// copy of usage; finalising again changes nothing.
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
	if diff := cmp.Diff(before, after, cmp.Comparer(func(a, b decimal.Decimal) bool { return a.Equal(b) })); diff != "" {
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

// R3: only closed hours can be finalised.
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

// A month of which nothing would come is refused before anything is decided for
// it: frozen as empty, it would stay so when its history is imported later.
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
	done, err := r.Finalise(t.Context(), invoice.FinaliseRequest{Period: "2026-04", Who: "finance"})
	if err != nil || len(done) != 1 || done[0].Tenant != "a" {
		t.Errorf("a month of terms alone: Finalise = %+v, %v, want a's minimum", done, err)
	}
}

// R17: late data after finalising leaves the invoice as it is; a note brings the
// difference, by the original's prices, distribution and supplied hours.
func TestR17LateDataBecomesANote(t *testing.T) {
	r, db := register(t)
	finalise(t, r)
	original := document(t, r, "2026-03-a-r0")
	hour := march.Add(2 * time.Hour)
	late := later(gpuHour(hour, "GPU-1", usagetest.Owner{Tenant: "a", Project: "p", Workload: "train", Active: 12_600_000, EnergyMJ: 1_800_000_000}))
	usagetest.Insert(t, db, late)

	found, err := r.Adjustments(t.Context(), "2026-03")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Note.Tenant != "a" || found[0].Hours != 1 || !found[0].Closed ||
		found[0].Reason != "late or corrected data: the hour 2026-03-01T02:00:00Z" {
		t.Fatalf("adjustments %+v, want a's hour", found)
	}
	done, err := r.Correct(t.Context(), invoice.CorrectRequest{Period: "2026-03", Tenant: "a", Who: "finance"})
	if err != nil {
		t.Fatal(err)
	}
	if done.Number != "2026-03-a-r1" || done.Kind != invoice.KindCreditNote || !strings.HasPrefix(done.Total, "-") {
		t.Errorf("note %+v, want a credit note", done)
	}
	if !bytes.Equal(original, document(t, r, "2026-03-a-r0")) {
		t.Error("the original changed")
	}
	documents, err := r.Show(t.Context(), "2026-03", "a")
	if err != nil {
		t.Fatal(err)
	}
	note := documents[1]
	if note.Corrects != "2026-03-a-r0" || !note.Effects.Distribution.IsZero() || note.GPUHours != "-0.500000000" {
		t.Errorf("note %+v, want half a GPU-hour less and no distribution", note)
	}
	verdict, err := r.Verify(t.Context(), done.Number)
	if err != nil || !verdict.Same || verdict.Pending {
		t.Errorf("verdict %+v, %v, want the same bytes and nothing pending", verdict, err)
	}
	if _, err := r.Correct(t.Context(), invoice.CorrectRequest{Period: "2026-03", Tenant: "a", Who: "finance"}); !errors.Is(err, invoice.ErrNothingToAdjust) {
		t.Errorf("a second note: %v, want nothing to adjust", err)
	}
}

// R15: a tenant remapped retroactively gives one credit and one debit of equal
// list value.
func TestR15ARemappedTenantIsOneCreditAndOneDebit(t *testing.T) {
	r, db := register(t)
	finalise(t, r)
	hour := march.Add(3 * time.Hour)
	moved := later(gpuHour(hour, "GPU-1", usagetest.Owner{Tenant: "b", Project: "p", Workload: "train", Active: 20_000_000, Idle: 5_200_000, EnergyMJ: 1_800_000_000}))
	moved.Epoch = 2
	usagetest.Insert(t, db, moved)
	found, err := r.Adjustments(t.Context(), "2026-03")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	list, hours := decimal.Zero, decimal.Zero
	for _, a := range found {
		if !strings.HasPrefix(a.Reason, "tenant mapping or metering rules changed: epoch 2 instead of 1") {
			t.Errorf("reason %q", a.Reason)
		}
		done, err := r.Correct(t.Context(), invoice.CorrectRequest{Period: "2026-03", Tenant: a.Note.Tenant, Who: "finance"})
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, done.Number+" "+done.Kind)
		list = list.Add(a.Note.Effects.List)
		hours = hours.Add(decimal.RequireFromString(a.Note.GPUHours))
	}
	if diff := cmp.Diff([]string{"2026-03-a-r1 credit_note", "2026-03-b-r1 debit_note"}, kinds); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if !list.IsZero() || !hours.IsZero() {
		t.Errorf("list values sum to %s, GPU-hours to %s, want nothing", list, hours)
	}
}

// R17: what an hour's platform time was shared as is frozen by the first
// invoice: a tenant finalised later gets its part, whatever came meanwhile.
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

// R6: of many who finalise at once, from two registers on one topic, exactly one
// decides each invoice, and all of them are told the same.
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

// R6, R20: where approvals are wanted, somebody else must have seen these bytes.
func TestR6ApprovalsAreOfSomebodyElseAndOfTheseBytes(t *testing.T) {
	r, db := register(t)
	try := func(who string) error {
		_, err := r.Finalise(t.Context(), invoice.FinaliseRequest{Period: "2026-03", Tenants: []string{"b"}, Who: who, Approved: true})
		return err
	}
	var conflict *invoice.ConflictError
	if err := try("finance"); !errors.As(err, &conflict) {
		t.Fatalf("without approval: %v", err)
	}
	if _, err := r.Approve(t.Context(), invoice.ApproveRequest{Period: "2026-03", Tenant: "b", Who: "auditor", Comment: "looked at it"}); err != nil {
		t.Fatal(err)
	}
	if err := try("auditor"); !errors.As(err, &conflict) {
		t.Errorf("the approver finalises: %v, want a conflict", err)
	}
	usagetest.Insert(t, db, later(gpuHour(march, "GPU-2")))
	if err := try("finance"); !errors.As(err, &conflict) {
		t.Errorf("other bytes: %v, want a conflict", err)
	}
	if _, err := r.Approve(t.Context(), invoice.ApproveRequest{Period: "2026-03", Tenant: "b", Who: "auditor"}); err != nil {
		t.Fatal(err)
	}
	if err := try("finance"); err != nil {
		t.Errorf("approved: %v", err)
	}
}

// R19: a published book counts for drafts from then on; what was finalised
// keeps its own, and so do its notes.
func TestR19PublishedBooksLeaveFinalisedInvoicesAlone(t *testing.T) {
	r, db := register(t)
	finalise(t, r, "a")
	original := document(t, r, "2026-03-a-r0")
	dearer := parse(t, strings.ReplaceAll(registerBook, `"2.49"`, `"9.99"`))
	for _, want := range []bool{true, false} {
		published, err := r.Publish(t.Context(), dearer, "finance", "")
		if err != nil || published != want {
			t.Fatalf("Publish = %v, %v, want %v", published, err, want)
		}
	}
	month, err := r.List(t.Context(), "2026-03")
	if err != nil {
		t.Fatal(err)
	}
	if month.Invoices[1].PriceHash != dearer.Hash || month.Invoices[0].PriceHash == dearer.Hash {
		t.Errorf("price books %s and %s", month.Invoices[0].PriceHash, month.Invoices[1].PriceHash)
	}
	if !bytes.Equal(original, document(t, r, "2026-03-a-r0")) {
		t.Error("the finalised invoice changed")
	}
	usagetest.Insert(t, db, later(gpuHour(march, "GPU-1")))
	found, err := r.Adjustments(t.Context(), "2026-03")
	if err != nil || len(found) != 1 || found[0].Note.PriceHash == dearer.Hash || found[0].Note.Effects.List.String() != "-2.49" {
		t.Errorf("adjustments %+v, %v, want the old price", found, err)
	}
}

// A line goes back to GPU-hours and to the batches that say so, and hours that
// moved since are named.
func TestEvidenceGoesBackToGPUHours(t *testing.T) {
	r, db := register(t)
	finalise(t, r)
	evidence, err := r.Evidence(t.Context(), "2026-03-a-r0", 1)
	if err != nil {
		t.Fatal(err)
	}
	if evidence.Line.Effect != rating.EffectList || evidence.Hours != 5 || len(evidence.GPUHours) != 5 || len(evidence.Moved) != 0 {
		t.Fatalf("evidence %+v, want five hours that agree", evidence)
	}
	first := evidence.GPUHours[0]
	if first.GPU != "GPU-1" || first.Workload != "train" || first.SliceMS != "20000000" {
		t.Errorf("first %+v", first)
	}
	usagetest.Insert(t, db, later(gpuHour(march, "GPU-1")))
	if evidence, err = r.Evidence(t.Context(), "2026-03-a-r0", 1); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"2026-03-01T00:00:00Z"}, evidence.Moved); diff != "" {
		t.Errorf("moved (-want +got):\n%s", diff)
	}
	last := 0
	for ; ; last++ {
		if _, err := r.Evidence(t.Context(), "2026-03-a-r0", last+1); errors.Is(err, invoice.ErrNotFound) {
			break
		} else if err != nil && !errors.Is(err, invoice.ErrNoEvidence) {
			t.Errorf("line %d: %v", last+1, err)
		}
	}
	if last < 6 {
		t.Errorf("the invoice has %d lines", last)
	}
}

// C7d: every tenant's hour with usage is in one invoice, in none, or pending.
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
	if diff := cmp.Diff(invoice.Coverage{Invoiced: 4, Unbilled: 5, Pending: 2}, coverage()); diff != "" {
		t.Errorf("after late data (-want +got):\n%s", diff)
	}
}

// Bills of a month are its invoices and the notes billed in it; their charges
// sum to their totals.
func TestBillsTellTheChargesOfInvoicesAndNotes(t *testing.T) {
	r, db := register(t)
	finalise(t, r)
	usagetest.Insert(t, db, later(gpuHour(march, "GPU-1")))
	if _, err := r.Correct(t.Context(), invoice.CorrectRequest{Period: "2026-03", Tenant: "a", Who: "finance"}); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, period := range []string{"2026-03", "2026-11"} {
		bills, err := r.Bills(t.Context(), period)
		if err != nil {
			t.Fatal(err)
		}
		for _, bill := range bills {
			sum := decimal.Zero
			if err := bill.Charges(func(c rating.Charge) { sum = sum.Add(c.Amount) }); err != nil {
				t.Fatal(err)
			}
			if !sum.Equal(decimal.RequireFromString(bill.Record.Total)) {
				t.Errorf("charges of %s sum to %s, want %s", bill.Record.Number, sum, bill.Record.Total)
			}
			got[bill.Record.Number] = period
		}
	}
	want := map[string]string{"2026-03-a-r0": "2026-03", "2026-03-b-r0": "2026-03", "2026-03-a-r1": "2026-11"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bills (-want +got):\n%s", diff)
	}
}

// R6: an approval asked for again with its key is the same one, though the draft
// has changed since; the key is nobody else's.
func TestR6AnApprovalsKeyApprovesOnce(t *testing.T) {
	r, db := register(t)
	asked := invoice.ApproveRequest{Period: "2026-03", Tenant: "b", Who: "auditor", Key: "k"}
	first, err := r.Approve(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	usagetest.Insert(t, db, later(gpuHour(march, "GPU-2", usagetest.Owner{Tenant: "b", Active: 1})))
	again, err := r.Approve(t.Context(), asked)
	if err != nil || !again.Already || again.Content != first.Content || again.Number != first.Number {
		t.Errorf("again %+v, %v, want %+v", again, err, first)
	}
	for name, change := range map[string]func(*invoice.ApproveRequest){
		"another tenant": func(q *invoice.ApproveRequest) { q.Tenant = "a" },
		"another month":  func(q *invoice.ApproveRequest) { q.Period = "2026-04" },
		"another person": func(q *invoice.ApproveRequest) { q.Who = "mallory" },
	} {
		q := asked
		change(&q)
		var conflict *invoice.ConflictError
		if _, err := r.Approve(t.Context(), q); !errors.As(err, &conflict) {
			t.Errorf("%s with the key: %v, want a conflict", name, err)
		}
	}
}

// R17, R19: a book that would change the currency of the fleet, or the zone of a
// tenant with a finalised invoice, is refused by name.
func TestR19BooksThatDontFitWhatStandsAreRefused(t *testing.T) {
	r, _ := register(t)
	finalise(t, r, "a")
	for text, want := range map[string]string{
		strings.Replace(registerBook, "USD", "EUR", 1):                                            "currency is EUR, the finalised invoice 2026-03-a-r0 is in USD",
		registerBook + "tenants: {a: {time_zone: Asia/Tokyo}}\n":                                  `time zone of tenant "a" is Asia/Tokyo`,
		strings.Replace(registerBook, "currency: USD", "currency: USD\ntime_zone: Asia/Tokyo", 1): `its finalised invoice 2026-03-a-r0 is in UTC`,
	} {
		_, err := r.Publish(t.Context(), parse(t, text), "finance", "")
		var conflict *invoice.ConflictError
		if !errors.As(err, &conflict) || !strings.Contains(err.Error(), want) {
			t.Errorf("Publish = %v, want %q", err, want)
		}
	}
	if _, err := r.Publish(t.Context(), parse(t, registerBook+"tenants: {b: {time_zone: Asia/Tokyo}}\n"), "finance", ""); err != nil {
		t.Errorf("a zone of a tenant without invoices: %v", err)
	}
}

// An adjustment that the invoice's own book can't price is shown with what is
// missing, beside the others, and can't be decided.
func TestAdjustmentsWithoutARateAreShown(t *testing.T) {
	r, db := register(t)
	finalise(t, r)
	odd := gpuHour(march.Add(6*time.Hour), "GPU-9", usagetest.Owner{Tenant: "a", Active: 25_200_000})
	odd.Model = "B300"
	usagetest.Insert(t, db, odd, later(gpuHour(march, "GPU-2")))
	found, err := r.Adjustments(t.Context(), "2026-03")
	if err != nil || len(found) != 2 {
		t.Fatalf("adjustments %+v, %v, want a's and b's", found, err)
	}
	if found[0].Closed || !strings.Contains(found[0].Open, `"B300"`) || !found[1].Closed {
		t.Errorf("adjustments %+v, want only a's without a rate", found)
	}
	var conflict *invoice.ConflictError
	if _, err := r.Correct(t.Context(), invoice.CorrectRequest{Period: "2026-03", Tenant: "a", Who: "x"}); !errors.As(err, &conflict) {
		t.Errorf("Correct = %v, want a conflict", err)
	}
}
