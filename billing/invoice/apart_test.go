package invoice_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/billing/invoice/invoicetest"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

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
