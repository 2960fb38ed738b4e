package invoice_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/invoice/invoicetest"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

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
	approve(t, r, "b", "auditor")
	if err := try("auditor"); !errors.As(err, &conflict) {
		t.Errorf("the approver finalises: %v, want a conflict", err)
	}
	usagetest.Insert(t, db, later(gpuHour(march, "GPU-2")))
	if err := try("finance"); !errors.As(err, &conflict) {
		t.Errorf("other bytes: %v, want a conflict", err)
	}
	approve(t, r, "b", "auditor")
	if err := try("finance"); err != nil {
		t.Errorf("approved: %v", err)
	}
}

// draft is a tenant's draft of March.
func draft(t *testing.T, r *invoicetest.Register, tenant string) invoice.Invoice {
	t.Helper()
	documents, err := r.Show(t.Context(), "2026-03", tenant)
	if err != nil {
		t.Fatal(err)
	}
	return documents[0]
}

// approve approves a draft of March as it stands.
func approve(t *testing.T, r *invoicetest.Register, tenant, who string) {
	t.Helper()
	q := invoice.ApproveRequest{Period: "2026-03", Tenant: tenant, Who: who, Comment: "looked at it", Expect: draft(t, r, tenant).Content}
	if _, err := r.Approve(t.Context(), q); err != nil {
		t.Fatal(err)
	}
}

func TestR6AnApprovalsKeyApprovesOnce(t *testing.T) {
	r, db := register(t)
	asked := invoice.ApproveRequest{Period: "2026-03", Tenant: "b", Who: "auditor", Key: "k", Expect: draft(t, r, "b").Content}
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

// An approval that is missing keeps nobody else from being finalised.
func TestUnapprovedInvoicesDontHoldUpOthers(t *testing.T) {
	r, _ := register(t)
	approve(t, r, "b", "auditor")
	done, err := r.Finalise(t.Context(), invoice.FinaliseRequest{Period: "2026-03", Who: "finance", Approved: true})
	if len(done) != 1 || done[0].Tenant != "b" || err == nil || !strings.Contains(err.Error(), "2026-03-a-r0") {
		t.Errorf("Finalise = %+v, %v, want b, and a's approval missing", done, err)
	}
}

// Where the register wants approvals, no request does without: neither the
// commands' nor the API's, which says nothing of it.
func TestR6ARegisterThatWantsApprovalsGetsThem(t *testing.T) {
	r, db := register(t)
	strict, err := invoice.NewRegister(invoice.RegisterDeps{
		DB: db, Decisions: r.Decisions, Book: parse(t, registerBook), Clock: r.Clock, Approvals: true,
		Closed: func(context.Context, time.Time) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	asked := invoice.FinaliseRequest{Period: "2026-03", Tenants: []string{"b"}, Who: "finance"}
	var conflict *invoice.ConflictError
	if _, err := strict.Finalise(t.Context(), asked); !errors.As(err, &conflict) {
		t.Fatalf("without approval: %v, want a conflict", err)
	}
	approve(t, r, "b", "auditor")
	if _, err := strict.Finalise(t.Context(), asked); err != nil {
		t.Fatalf("approved: %v", err)
	}
	usagetest.Insert(t, db, later(gpuHour(march, "GPU-2")))
	if _, err := strict.Correct(t.Context(), invoice.CorrectRequest{Period: "2026-03", Tenant: "b", Who: "finance"}); !errors.As(err, &conflict) {
		t.Errorf("a note without approval: %v, want a conflict", err)
	}
}

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
