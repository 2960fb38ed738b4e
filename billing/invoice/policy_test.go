package invoice_test

import (
	"errors"
	"testing"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/invoice/invoicetest"
	"github.com/gputally/gputally/internal/decisions"
)

// TestM3ThePolicyHoldsWhateverTheConfigurationSays: the register below was
// configured without approvals.
func TestM3ThePolicyHoldsWhateverTheConfigurationSays(t *testing.T) {
	db := emptyLedger(t)
	fleet(t, db)
	r := invoicetest.Open(t, db, parse(t, registerBook), invoicetest.Broker(t))
	on := decisions.Policy{Approvals: true, Approvers: []string{"alice", "Mallory"}}
	if err := r.SetPolicy(t.Context(), on, "alice"); err != nil {
		t.Fatal(err)
	}
	var conflict *invoice.ConflictError
	finalise := func(who string) error {
		_, err := r.Finalise(t.Context(), invoice.FinaliseRequest{Period: "2026-03", Tenants: []string{"a"}, Who: who})
		return err
	}
	approve := func(who string) error {
		_, err := r.Approve(t.Context(), invoice.ApproveRequest{Period: "2026-03", Tenant: "a", Who: who, Expect: draft(t, r, "a").Content})
		return err
	}
	if err := finalise("mallory"); !errors.As(err, &conflict) {
		t.Errorf("finalised without an approval: %v", err)
	}
	for _, who := range []string{"bob", "\u0430lice", "alice\u200b"} {
		if err := approve(who); !errors.As(err, &conflict) {
			t.Errorf("%q approved: %v", who, err)
		}
	}
	if err := approve("mallory"); err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"mallory", "mallory ", "Mallory"} {
		if err := finalise(who); !errors.As(err, &conflict) {
			t.Errorf("%q finalised by an own approval: %v", who, err)
		}
	}
	off := decisions.Policy{Revision: 1, Approvers: []string{}}
	if err := r.SetPolicy(t.Context(), off, "mallory"); !errors.As(err, &conflict) {
		t.Errorf("one person turned approvals off: %v", err)
	}
	if err := finalise("bob"); err != nil {
		t.Errorf("two people: %v", err)
	}
	if err := r.ApprovePolicy(t.Context(), off, "alice", ""); err != nil {
		t.Fatal(err)
	}
	if err := r.SetPolicy(t.Context(), off, "mallory"); err != nil {
		t.Errorf("two people turn approvals off: %v", err)
	}
	if _, err := r.Finalise(t.Context(), invoice.FinaliseRequest{Period: "2026-03", Who: "m\u0430llory"}); err == nil {
		t.Error("a name of two scripts decided something")
	}
}
