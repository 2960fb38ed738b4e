package invoice_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/invoice/invoicetest"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

// poison is one hour of a tenant with another trouble each.
var poison = map[string]usagetest.GPUHour{
	"time": {GPUSlices: 1000, Slices: 4_000_000_000, Owners: []usagetest.Owner{
		{Leaf: "all", Tenant: "evil", Active: 4_000_000_000 * 3_600_000},
	}},
	"the platform's time": {GPUSlices: 1000, Slices: 4_000_000_000},
	"energy": {Slices: 1, Owners: []usagetest.Owner{
		{Leaf: "all", Tenant: "evil", Active: 1, EnergyMJ: math.MaxInt64},
		{Leaf: "more", Tenant: "evil", Active: 1, EnergyMJ: math.MaxInt64},
	}},
	"a profile of no size": {Slices: 7, Owners: []usagetest.Owner{{Leaf: "m", Profile: "1g.10gb", Tenant: "evil", Active: 1}}},
}

// What one tenant's hour can't be billed for left the month of all without
// drafts, exports and statements.
func TestH8OneTenantsHourIsQuarantinedAndNoOthers(t *testing.T) {
	for name, hour := range poison {
		t.Run(name, func(t *testing.T) {
			db := ledger(t)
			drafts := invoice.NewDrafts(db, parse(t, bookText))
			clean, err := drafts.List(t.Context(), "2026-03")
			if err != nil {
				t.Fatal(err)
			}
			hour.Hour, hour.GPU, hour.Node, hour.Model = march.Add(50*time.Hour), "GPU-evil", "evil-node", "H100"
			usagetest.Insert(t, db, hour)
			month, err := drafts.List(t.Context(), "2026-03")
			if err != nil {
				t.Fatalf("draft the month: %v", err)
			}
			var evil *invoice.Invoice
			var others []invoice.Invoice
			for i, in := range month.Invoices {
				if in.Tenant == "evil" {
					evil = &month.Invoices[i]
				} else {
					others = append(others, in)
				}
			}
			if diff := cmp.Diff(clean.Invoices, others); diff != "" {
				t.Errorf("the other tenants' drafts (-want +got):\n%s", diff)
			}
			says := month.Platform.Quarantined
			if len(hour.Owners) > 0 {
				if evil == nil {
					t.Fatal("the quarantined tenant has no document")
				}
				says = evil.Quarantined
			}
			for _, want := range []string{"2026-03-03T02:00:00Z", "GPU-evil", "evil-node", "import batches"} {
				if !strings.Contains(says, want) {
					t.Errorf("the document says %q, want %q in it", says, want)
				}
			}
			clean.Platform.Quarantined, clean.Platform.Withheld = month.Platform.Quarantined, invoice.ReasonQuarantined
			if diff := cmp.Diff(clean.Platform, month.Platform); diff != "" {
				t.Errorf("the platform's account (-want +got):\n%s", diff)
			}
		})
	}
}

// An hour with a quarantined tenant is not shared out: nobody is given a part
// that depends on what can't be counted. Others' usage of the hour is billed.
func TestH8AQuarantinedHourIsNotDistributed(t *testing.T) {
	db := emptyLedger(t)
	usagetest.Insert(t, db,
		usagetest.GPUHour{Hour: march, GPU: "GPU-a", Model: "H100", Slices: 7, Owners: []usagetest.Owner{{Leaf: "m", Tenant: "ml", Active: 3_600_000}}},
		usagetest.GPUHour{Hour: march.Add(time.Hour), GPU: "GPU-a", Model: "H100", Slices: 7, Owners: []usagetest.Owner{{Leaf: "m", Tenant: "ml", Active: 3_600_000}}},
		usagetest.GPUHour{
			Hour: march, GPU: "pool", Model: "H100", Slices: 4_000_000_000, GPUSlices: 1000,
			Owners: []usagetest.Owner{{Leaf: "all", Tenant: "evil", Active: 4_000_000_000 * 3_600_000}},
		})
	var given []time.Time
	month, err := invoice.NewDrafts(db, parse(t, bookText)).Charges(t.Context(), "2026-03", func(c rating.Charge) {
		if c.Effect == rating.EffectDistribution && c.Tenant == "ml" {
			given = append(given, c.Hour.UTC())
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]time.Time{march.Add(time.Hour)}, given); diff != "" {
		t.Errorf("hours of which a part was given (-want +got):\n%s", diff)
	}
	for _, in := range month.Invoices {
		if in.Tenant == "ml" && in.GPUHours.String() != "0.285714286" {
			t.Errorf("ml is billed %s GPU-hours, want both of its hours", in.GPUHours)
		}
	}
}

// Finalise refuses the quarantined tenant, freezes and finalises the others, and
// takes the tenant once the hour was corrected.
func TestH8FinaliseRefusesTheQuarantinedTenantAlone(t *testing.T) {
	r, db := register(t)
	hour := march.Add(3 * time.Hour)
	usagetest.Insert(t, db, usagetest.GPUHour{
		Hour: hour, GPU: "GPU-evil", Model: "H100", Slices: 4_000_000_000, GPUSlices: 1000, Version: 1,
		Owners: []usagetest.Owner{{Leaf: "all", Tenant: "b", Active: 4_000_000_000 * 3_600_000}},
	})
	var conflict *invoice.ConflictError
	if _, err := r.Approve(t.Context(), invoice.ApproveRequest{Period: "2026-03", Tenant: "b", Who: "finance"}); !errors.As(err, &conflict) {
		t.Errorf("Approve = %v, want a refusal", err)
	}
	done, err := r.Finalise(t.Context(), invoice.FinaliseRequest{Period: "2026-03", Who: "finance"})
	if !errors.As(err, &conflict) || !strings.Contains(err.Error(), "GPU-evil") || len(done) != 1 || done[0].Tenant != "a" {
		t.Fatalf("Finalise = %+v, %v, want a alone, and b refused by name", done, err)
	}
	usagetest.Insert(t, db, usagetest.GPUHour{Hour: hour, GPU: "GPU-evil", Model: "H100", Slices: 4_000_000_000, GPUSlices: 1000, PresentMS: 1, Unobserved: 4_000_000_000, Version: 2})
	done, err = r.Finalise(t.Context(), invoice.FinaliseRequest{Period: "2026-03", Tenants: []string{"b"}, Who: "finance"})
	if err != nil || len(done) != 1 || done[0].Tenant != "b" || done[0].Already {
		t.Fatalf("Finalise = %+v, %v, want b once its hour is corrected", done, err)
	}
	coverage, err := r.Coverage(t.Context())
	if err != nil || len(coverage.Wrong) > 0 || coverage.Pending > 0 {
		t.Errorf("coverage %+v, %v, want nothing wrong or pending", coverage, err)
	}
}

// A model that the book has no rate for kept the month of all from being drafted: a
// name that anybody's node may report. Now it holds up who used it.
func TestH8AModelWithoutARateHoldsUpItsTenantAlone(t *testing.T) {
	db := ledger(t)
	drafts := invoice.NewDrafts(db, parse(t, bookText))
	clean, err := drafts.List(t.Context(), "2026-03")
	if err != nil {
		t.Fatal(err)
	}
	at := march.Add(50 * time.Hour)
	usagetest.Insert(t, db,
		usagetest.GPUHour{Hour: at, GPU: "GPU-evil", Model: "", Slices: 7, Owners: []usagetest.Owner{{Leaf: "m", Tenant: "evil", Active: 3_600_000}}},
		usagetest.GPUHour{Hour: at.Add(time.Hour), GPU: "GPU-free", Model: "B300", Slices: 7})
	month, err := drafts.List(t.Context(), "2026-03")
	if err != nil {
		t.Fatalf("draft the month: %v", err)
	}
	others := slices.DeleteFunc(slices.Clone(month.Invoices), func(i invoice.Invoice) bool { return i.Tenant == "evil" })
	if diff := cmp.Diff(clean.Invoices, others); diff != "" || len(others) == len(month.Invoices) {
		t.Errorf("the other tenants' drafts (-want +got):\n%s", diff)
	}
	for _, in := range month.Invoices {
		if in.Tenant == "evil" && (in.Withheld != invoice.ReasonNoRate || !strings.Contains(in.Quarantined, `price model ""`)) {
			t.Errorf("the tenant's draft says %q, %q", in.Withheld, in.Quarantined)
		}
	}
	if p := month.Platform; p.Withheld != invoice.ReasonNoRate || !strings.Contains(p.Quarantined, "2 hours") {
		t.Errorf("the platform's account says %q, %q", p.Withheld, p.Quarantined)
	}
}

// Finalise names all models without a rate, unless they are to be
// left out; then their tenant alone is refused, and taken once there is a rate.
func TestH8FinaliseLeavesOutModelsWithoutARateIfMeant(t *testing.T) {
	r, db := register(t)
	usagetest.Insert(t, db,
		usagetest.GPUHour{Hour: march.Add(3 * time.Hour), GPU: "GPU-x", Model: "B300", Slices: 7, Owners: []usagetest.Owner{{Leaf: "m", Tenant: "b", Active: 3_600_000}}},
		usagetest.GPUHour{Hour: march.Add(4 * time.Hour), GPU: "GPU-y", Model: "L4", Slices: 1})
	q := invoice.FinaliseRequest{Period: "2026-03", Who: "finance"}
	_, err := r.Finalise(t.Context(), q)
	if reason, _ := invoice.ReasonOf(err); reason != invoice.ReasonNoRate || !strings.Contains(err.Error(), `"B300"`) || !strings.Contains(err.Error(), `"L4"`) {
		t.Errorf("Finalise = %v, want both models named", err)
	}
	q.WithoutUnpriced = true
	done, err := r.Finalise(t.Context(), q)
	if reason, _ := invoice.ReasonOf(err); reason != invoice.ReasonNoRate || len(done) != 1 || done[0].Tenant != "a" {
		t.Fatalf("Finalise = %+v, %v, want a alone, and b refused", done, err)
	}
	rates := strings.ReplaceAll(registerBook, "models: {", `models: {B300: {gpu_hour: "3"}, L4: {gpu_hour: "1"}, `)
	if _, err := r.Publish(t.Context(), parse(t, rates), "finance", ""); err != nil {
		t.Fatal(err)
	}
	done, err = r.Finalise(t.Context(), invoice.FinaliseRequest{Period: "2026-03", Who: "finance"})
	if err != nil || len(done) != 2 {
		t.Fatalf("Finalise = %+v, %v, want b beside a", done, err)
	}
	coverage, err := r.Coverage(t.Context())
	if err != nil || len(coverage.Wrong) > 0 || coverage.Pending > 0 {
		t.Errorf("coverage %+v, %v, want nothing wrong or pending", coverage, err)
	}
}

// Reports of one model that disagree about a profile's number of slices are
// billed, each under its own number, and nothing is left out of anybody's month.
func TestProfileOfTwoSizesIsInvoiced(t *testing.T) {
	db := ledger(t)
	hour := gpuHour(march.Add(50*time.Hour), "GPU-odd",
		usagetest.Owner{Profile: "1g.10gb", ProfileSlices: 1, Tenant: "odd", Active: 3_600_000},
		usagetest.Owner{Profile: "1g.10gb", ProfileSlices: 2, Tenant: "odd", Active: 3_600_000})
	hour.Owners[0].Leaf, hour.Owners[1].Leaf = "m", "n"
	usagetest.Insert(t, db, hour)
	r := invoicetest.Open(t, db, parse(t, bookText), invoicetest.Broker(t))
	month, err := r.List(t.Context(), "2026-03")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range month.Invoices {
		if document.Quarantined != "" {
			t.Errorf("tenant %q: %s", document.Tenant, document.Quarantined)
		}
	}
	finalise(t, r)
	documents, err := r.Show(t.Context(), "2026-03", "odd")
	if err != nil {
		t.Fatal(err)
	}
	leaves := map[string][]string{}
	for i, line := range documents[0].Lines {
		if line.Effect != "list" {
			continue
		}
		evidence, err := r.Evidence(t.Context(), documents[0].Number, i+1)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range evidence.GPUHours {
			leaves[line.Detail] = append(leaves[line.Detail], g.Leaf)
		}
	}
	want := map[string][]string{
		"reported as 1/7 of the GPU, which other reports of the hour contradict": {"m"},
		"reported as 2/7 of the GPU, which other reports of the hour contradict": {"n"},
	}
	if diff := cmp.Diff(want, leaves); diff != "" {
		t.Errorf("leaves by line (-want +got):\n%s", diff)
	}
	verdict, err := r.Verify(t.Context(), documents[0].Number)
	if err != nil || !verdict.Same || verdict.Pending {
		t.Errorf("verdict %+v, %v", verdict, err)
	}
}
