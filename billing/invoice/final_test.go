package invoice_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/billing/invoice"
	"github.com/gpuledger/gpuledger/internal/decisions"
)

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

func TestF2AMonthBeforeTheLedgerIsRefused(t *testing.T) {
	r, _ := register(t)
	done, err := r.Finalise(t.Context(), invoice.FinaliseRequest{Period: "2026-02", Who: "mallory"})
	length, _ := topic(r.Decisions)
	t.Logf("%+v, %v, %d records", done, err, length)
	if err == nil || length > 0 {
		t.Errorf("February was finalised")
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
	want := invoice.MovedError{Number: now.Number, Expected: seen.Content, Content: now.Content, Total: now.Total, Currency: "USD"}
	if diff := cmp.Diff(want, *moved); diff != "" || now.Content == seen.Content {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
	if l, c := topic(r.Decisions); l != length || c != chain {
		t.Errorf("the refusal appended %d records", l-length)
	}
	done, err := r.Approve(t.Context(), invoice.ApproveRequest{Period: "2026-03", Tenant: "b", Who: "auditor", Expect: now.Content[:16]})
	if err != nil || done.Total != now.Total || done.Currency != "USD" || done.Content != now.Content {
		t.Errorf("approval = %+v, %v, want it of %s", done, err, now.Content)
	}
}
