package decisions

import (
	"fmt"
	"strings"
	"testing"
)

func policyOf(revision int, approvals bool, approval string, approvers ...string) Policy {
	return Policy{Revision: revision, Approvals: approvals, Approvers: append([]string{}, approvers...), Approval: approval}
}

// approve has somebody approve a content under a subject, and gives the key.
func (f *folded) approve(who, subject, content string) string {
	f.tb.Helper()
	key := fmt.Sprintf("%s-%d", KindApproval, f.state.Next())
	f.must(f.record(KindApproval, who, Approval{Subject: subject, Content: content}))
	return key
}

func (f *folded) refused(out Outcome, want string) {
	f.tb.Helper()
	if out.Accepted || !strings.Contains(out.Reason, want) {
		f.tb.Errorf("offset %d: accepted %v, reason %q, want %q", out.Offset, out.Accepted, out.Reason, want)
	}
}

// TestM3PolicyBindsEveryWriter: from its record on an invoice without a fitting
// approval is refused, whoever wrote it with whatever configuration.
func TestM3PolicyBindsEveryWriter(t *testing.T) {
	f := prepared(t)
	f.must(f.record(KindInvoice, "mallory", invoiceOf("web"))) // no policy yet
	f.must(f.record(KindPolicy, "carol", policyOf(0, true, "", "alice", "bob", "mallory")))
	invoice := invoiceOf("ml")
	f.refused(f.record(KindInvoice, "mallory", invoice), "names no approval")
	for who, want := range map[string]string{
		"mallory": "a second person is required", "mallory ": "the same person", "Mallory": "the same person", "ｍallory": "the same person",
		"dave": "may not approve", "\u0430lice": "mixes letters of the scripts",
	} {
		invoice.Approval = f.approve(who, invoice.Number, invoice.Content.SHA256)
		f.refused(f.record(KindInvoice, "mallory", invoice), want)
	}
	note := noteOf(invoiceOf("web"), "-1.00")
	f.refused(f.record(KindNote, "mallory", note), "names no approval")
	note.Approval = f.approve("ALICE", note.Number, note.Content.SHA256)
	f.must(f.record(KindNote, "mallory", note))
	invoice.Approval = f.approve("bob", invoice.Number, invoice.Content.SHA256)
	f.refused(f.record(KindInvoice, "m\u0430llory", invoice), "mixes letters of the scripts")
	f.must(f.record(KindInvoice, "mallory", invoice))
}

// TestM3ItTakesTwoToChangeThePolicy, each time anew.
func TestM3ItTakesTwoToChangeThePolicy(t *testing.T) {
	f := prepared(t)
	f.refused(f.record(KindPolicy, "carol", policyOf(1, true, "")), "revision is 1, want the next one, 0")
	f.refused(f.record(KindPolicy, "carol", policyOf(0, true, "", "carol")), "want two or more")
	f.refused(f.record(KindPolicy, "carol", policyOf(0, true, "", "carol", "Carol ")), "the same person")
	f.refused(f.record(KindPolicy, "carol", policyOf(0, true, "", "carol", "\u0430lice")), "mixes letters of the scripts")
	f.must(f.record(KindPolicy, "carol", policyOf(0, true, "", "carol", "alice")))
	off := policyOf(1, false, "")
	f.refused(f.record(KindPolicy, "carol", off), "names no approval")
	off.Approval = f.approve("Carol", off.Subject(), off.Content())
	f.refused(f.record(KindPolicy, "carol", off), "the same person")
	off.Approval = f.approve("dave", off.Subject(), off.Content())
	f.refused(f.record(KindPolicy, "carol", off), "may not approve")
	off.Approval = f.approve("alice", off.Subject(), off.Content())
	narrower := off
	narrower.Approvers = []string{"carol"}
	f.refused(f.record(KindPolicy, "carol", narrower), "is for content")
	f.must(f.record(KindPolicy, "carol", off))
	f.must(f.record(KindPolicy, "carol", policyOf(2, true, "")))
	again := policyOf(3, false, off.Approval)
	f.refused(f.record(KindPolicy, "carol", again), `is for "policy-r1"`)
	if p, set := f.state.Policy(); !set || p.Body.Revision != 2 || !p.Body.Approvals {
		t.Errorf("in force is %+v, %v", p, set)
	}
}

// TestOldLogsKeepTheirComparison: what was accepted by bytes before there was a
// policy stays accepted.
func TestOldLogsKeepTheirComparison(t *testing.T) {
	f := prepared(t)
	old := invoiceOf("ml")
	old.Approval = f.approve("mallory", old.Number, old.Content.SHA256)
	f.must(f.record(KindInvoice, "mallory ", old))
	if _, err := f.state.FindApproval("mallory ", old.Content.SHA256, old.Number); err == nil || !strings.Contains(err.Error(), "the same person") {
		t.Errorf("a writer of today and an approval by the same person: %v, want it to say so", err)
	}
	for subject, command := range map[string]string{old.Number: "gputally invoice approve", policyOf(1, true, "").Subject(): "gputally policy approve"} {
		if _, err := f.state.FindApproval("carol", "none", subject); err == nil || !strings.Contains(err.Error(), command) {
			t.Errorf("%s without an approval: %v, want it to name %s", subject, err, command)
		}
	}
	if key, err := f.state.FindApproval("carol", old.Content.SHA256, old.Number); err != nil || key != old.Approval {
		t.Errorf("FindApproval = %q, %v, want %q", key, err, old.Approval)
	}
}
