package invoice_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/billing/invoice"
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
	if diff := cmp.Diff(invoice.Coverage{Invoiced: 4, Unbilled: 5, Pending: 2}, coverage()); diff != "" {
		t.Errorf("after late data (-want +got):\n%s", diff)
	}
}
