package invoice_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/invoice/invoicetest"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

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

const twoPrices = `currency: USD
versions:
- effective: 2026-01-01T00:00:00Z
  models: {H100: {gpu_hour: "2.49", profiles: {1g.10gb: "0.40"}, tiers: [{above: "1", gpu_hour: "2.00"}]}}
  kwh: "0.28"
  idle_surcharge: "0.10"
  tenants: {a: {discount: "0.10"}}
- effective: 2026-03-01T02:00:00Z
  models: {H100: {gpu_hour: "3.00", profiles: {1g.10gb: "0.50"}, tiers: [{above: "1", gpu_hour: "2.00"}]}}
  kwh: "0.30"
  idle_surcharge: "0.20"
  tenants: {a: {discount: "0.20"}}
`

// The evidence of a line is the hours of that line's price: two before the new
// one, three after it.
func TestEvidenceIsOfTheHoursAtTheLinesPrice(t *testing.T) {
	db := emptyLedger(t)
	fleet(t, db)
	for i := range 5 {
		usagetest.Insert(t, db, gpuHour(march.Add(time.Duration(i)*time.Hour), "GPU-4",
			usagetest.Owner{Tenant: "a", Profile: "1g.10gb", ProfileSlices: 1, Active: 3_600_000}))
	}
	r := invoicetest.Open(t, db, parse(t, twoPrices), invoicetest.Broker(t))
	finalise(t, r)
	documents, err := r.Show(t.Context(), "2026-03", "a")
	if err != nil {
		t.Fatal(err)
	}
	effects := map[string]int{}
	for i, line := range documents[0].Lines {
		evidence, err := r.Evidence(t.Context(), "2026-03-a-r0", i+1)
		if errors.Is(err, invoice.ErrNoEvidence) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(evidence.Moved) > 0 {
			t.Errorf("line %d, %+v: moved %v, want none", i+1, line, evidence.Moved)
		}
		effects[line.Effect] += evidence.Hours
	}
	want := map[string]int{"list": 15, "profile": 10, "tier": 5, "discount": 5, "idle_surcharge": 5, "energy": 5}
	if diff := cmp.Diff(want, effects); diff != "" {
		t.Errorf("hours by effect (-want +got):\n%s", diff)
	}
}
