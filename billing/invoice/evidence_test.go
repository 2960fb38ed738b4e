package invoice_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/billing/invoice"
	"github.com/gpuledger/gpuledger/billing/rating"
	"github.com/gpuledger/gpuledger/internal/usage/usagetest"
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
