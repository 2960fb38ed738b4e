package invoice_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/invoice/invoicetest"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

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
	if note.Corrects != "2026-03-a-r0" || !note.Effects.Distribution.IsZero() || note.GPUHours.String() != "-0.500000000" {
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
		hours = hours.Add(a.Note.GPUHours.Decimal)
	}
	if diff := cmp.Diff([]string{"2026-03-a-r1 credit_note", "2026-03-b-r1 debit_note"}, kinds); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if !list.IsZero() || !hours.IsZero() {
		t.Errorf("list values sum to %s, GPU-hours to %s, want nothing", list, hours)
	}
}

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

func adjustments(t *testing.T, r *invoicetest.Register, period string) []invoice.Adjustment {
	t.Helper()
	found, err := r.Adjustments(t.Context(), period)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A board of another tenant that has other slices is no adjustment of one whose
// usage is what it was.
func TestBoardsOfOtherTenantsAreNoAdjustment(t *testing.T) {
	r, db := register(t)
	finalise(t, r)
	other := gpuHour(march, "GPU-9", usagetest.Owner{Tenant: "c", Active: 1_800_000})
	other.Slices = 2
	usagetest.Insert(t, db, other)
	if found := adjustments(t, r, "2026-03"); len(found) != 0 {
		t.Errorf("adjustments %+v, want none of a and b", found)
	}
}

// The fingerprint changes with every hour that is published anew, so that who
// looked in the middle of a remapping looks again.
func TestFingerprintsTellHalfAndWholeRemappings(t *testing.T) {
	r, db := register(t)
	seen := map[invoice.Fingerprint]bool{}
	for i := range 3 {
		moved := later(gpuHour(march.Add(time.Duration(i)*time.Hour), "GPU-1", usagetest.Owner{Tenant: "b", Active: 25_200_000}))
		moved.Epoch, moved.Inputs = 2, 360
		usagetest.Insert(t, db, moved)
		f, err := r.Fingerprint(t.Context(), "2026-03")
		if err != nil {
			t.Fatal(err)
		}
		if seen[f] {
			t.Errorf("after %d hours of a new mapping the fingerprint is still %+v", i+1, f)
		}
		seen[f] = true
	}
}

// R5: a ledger that has lost hours is no reason to pay them back.
func TestR5NotesAreNotDecidedOnALedgerThatLostHours(t *testing.T) {
	b := invoicetest.Broker(t)
	db := emptyLedger(t)
	fleet(t, db)
	finalise(t, invoicetest.Open(t, db, parse(t, registerBook), b))
	r := invoicetest.Open(t, emptyLedger(t), parse(t, registerBook), b)
	found := adjustments(t, r, "2026-03")
	if len(found) != 2 || found[0].Closed || !strings.Contains(found[0].Open, "fewer inputs") {
		t.Errorf("adjustments %+v, want none that can be decided", found)
	}
	var conflict *invoice.ConflictError
	if done, err := r.Correct(t.Context(), invoice.CorrectRequest{Period: "2026-03", Tenant: "a", Who: "x"}); !errors.As(err, &conflict) {
		t.Errorf("Correct = %+v, %v, want a conflict", done, err)
	}
}

// decided copies what makes a number stand from one log to another, changed.
func decided(t *testing.T, from, to *decisions.Log, number string, change func(*decisions.Invoice)) {
	t.Helper()
	put := func(document decisions.Document) {
		content, err := from.Read(t.Context(), document)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := to.Put(t.Context(), content); err != nil {
			t.Fatal(err)
		}
	}
	err := from.Walk(t.Context(), 0, func(e decisions.Entry) error {
		switch body := e.Body.(type) {
		case *decisions.Freeze:
			put(body.Copy)
		case *decisions.Invoice:
			if body.Number != number {
				return nil
			}
			put(body.Content)
			put(body.Usage)
			change(body)
		case nil:
			return nil
		}
		outcome, err := to.Append(t.Context(), e.Record.Kind, e.Record.Key, e.Record.Request, e.Record.Who, e.Body)
		if err == nil && !outcome.Accepted {
			t.Errorf("%s was refused: %s", e.Record.Kind, outcome.Reason)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// C8: verify holds every figure of the decision against the document, which
// exports and coverage read it by.
func TestC8VerifySeesADecisionThatItsDocumentContradicts(t *testing.T) {
	r, db := register(t)
	finalise(t, r)
	for want, change := range map[string]func(*decisions.Invoice){
		"":                          func(*decisions.Invoice) {},
		"total 0.01":                func(i *decisions.Invoice) { i.Total = "0.01" },
		"gpu_hours 1":               func(i *decisions.Invoice) { i.GPUHours = "1" },
		"currency EUR":              func(i *decisions.Invoice) { i.Currency = "EUR" },
		"time_zone Asia/Tokyo":      func(i *decisions.Invoice) { i.TimeZone = "Asia/Tokyo" },
		"from 2026-03-01T01:00:00Z": func(i *decisions.Invoice) { i.From = i.From.Add(time.Hour) },
		"to 2026-03-31T23:00:00Z":   func(i *decisions.Invoice) { i.To = i.To.Add(-time.Hour) },
		"usage copy":                func(i *decisions.Invoice) { i.Usage = i.Content },
	} {
		other := invoicetest.Open(t, db, parse(t, registerBook), invoicetest.Broker(t))
		decided(t, r.Decisions, other.Decisions, "2026-03-a-r0", change)
		err := other.VerifyAll(t.Context(), func(v *invoice.Verdict) error {
			if v.Same != (want == "") || !strings.Contains(v.Wrong, want) {
				t.Errorf("verdict %+v, want %q", v, want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
