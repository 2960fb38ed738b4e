package invoice_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/invoice/invoicetest"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions"
)

// asked is a small ledger of the tenants a and b, and what is asked of it.
type asked struct {
	t      *testing.T
	ledger *smallLedger
	broker *broker.Embedded
	*invoicetest.Register
}

func (a *asked) finalise(change func(*invoice.FinaliseRequest)) error {
	q := invoice.FinaliseRequest{Period: "2026-03", Tenants: []string{"a"}, Who: "finance"}
	change(&q)
	done, err := a.Finalise(a.t.Context(), q)
	if err != nil && len(done) > 0 {
		a.t.Errorf("%v, and %+v was decided", err, done)
	}
	return err
}

func (a *asked) note(change func(*invoice.CorrectRequest)) error {
	q := invoice.CorrectRequest{Period: "2026-03", Tenant: "a", Who: "finance"}
	change(&q)
	_, err := a.Correct(a.t.Context(), q)
	return err
}

// approve approves the draft as it is, else what a note would be.
func (a *asked) approve(change func(*invoice.ApproveRequest)) error {
	q := invoice.ApproveRequest{Period: "2026-03", Tenant: "a", Who: "auditor", Expect: strings.Repeat("0", 64)}
	if shown, err := a.Show(a.t.Context(), q.Period, q.Tenant); err == nil {
		q.Expect = shown[0].Content
	}
	change(&q)
	_, err := a.Approve(a.t.Context(), q)
	return err
}

func (a *asked) load(text, who, key string) error {
	_, err := a.Publish(a.t.Context(), parse(a.t, text), who, key)
	return err
}

func as[T any](*T) {}

func (a *asked) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// noted has a's invoice, and late data since.
func (a *asked) noted() {
	a.must(a.finalise(as))
	a.late()
}

func (a *asked) late() { a.ledger.held["a"] += 3_600_000; a.ledger.inputs++ }

// deleted makes a register that finds decisions missing.
func (a *asked) deleted() {
	a.register(a.Decisions, func(context.Context) error { return decisions.ErrDeleted })
}

func (a *asked) register(log *decisions.Log, whole func(context.Context) error) {
	var err error
	a.Register.Register, err = invoice.NewRegister(invoice.RegisterDeps{
		DB: a.ledger, Decisions: log, Book: parse(a.t, flatBook), Clock: a.Clock,
		Closed: func(context.Context, time.Time) error { return nil }, Whole: whole,
	})
	a.must(err)
}

// used makes a register that has decided as much today as it may: its one book
// and its policies. Its clock is the broker's, which stamps the records.
func (a *asked) used() {
	client := broker.NewClient(broker.Config{Brokers: []string{a.broker.Addr()}}, slog.New(slog.DiscardHandler))
	a.t.Cleanup(client.Close)
	log, err := decisions.Open(a.t.Context(), client, decisions.Options{Clock: clock.Real(), PriceBooksPerDay: 1})
	a.must(err)
	a.register(log, nil)
	a.must(a.load(flatBook, "x", ""))
	var quota *decisions.QuotaError
	for next := 0; err == nil; next++ {
		err = a.SetPolicy(a.t.Context(), decisions.Policy{Revision: next, Approvers: []string{}}, "alice")
	}
	if !errors.As(err, &quota) {
		a.t.Fatal(err)
	}
	a.must(a.Decisions.Refresh(a.t.Context()))
}

// refusal is a request that is refused for a reason; arrange may be nil.
type refusal struct {
	name    string
	arrange func(*asked)
	ask     func(*asked) error
}

var (
	askFinalise = func(a *asked) error { return a.finalise(as) }
	askNote     = func(a *asked) error { return a.note(as) }
	askApprove  = func(a *asked) error { return a.approve(as) }
	longTenant  = strings.Repeat("n", decisions.MaxTenantBytes+1)
	policyOn    = decisions.Policy{Approvals: true, Approvers: []string{"alice", "bob"}}
)

const zeros = "0000000000000000"

func withoutRate(a *asked) { a.must(a.load(strings.ReplaceAll(flatBook, "H100", "A100"), "x", "")) }

func broken(a *asked) { a.ledger.broken = "a" }

func closed(a *asked) { a.ClosedUntil = march }

// refusals are all reasons, each with every request that can have it.
var refusals = map[invoice.Reason][]refusal{
	invoice.ReasonOpen: {
		{"finalise", closed, askFinalise},
		{"note", func(a *asked) { a.noted(); closed(a) }, askNote},
	},
	invoice.ReasonNoRate: {
		{"finalise", withoutRate, askFinalise},
		{"approve", withoutRate, askApprove},
		{"note", func(a *asked) { a.noted(); a.ledger.model = "H200" }, askNote},
		{"before the book", func(a *asked) { a.must(a.load(strings.Replace(flatBook, "2026-01", "2026-04", 1), "x", "")) }, askFinalise},
	},
	invoice.ReasonUnequal: {
		{"finalise", func(a *asked) { a.ledger.lost = 1_000 }, askFinalise},
		{"approve", func(a *asked) { a.ledger.lost = 1_000 }, askApprove},
	},
	invoice.ReasonNoUsage: {{"finalise", func(a *asked) { a.ledger.empty = true }, askFinalise}},
	invoice.ReasonNothing: {
		{"finalise", nil, func(a *asked) error {
			return a.finalise(func(q *invoice.FinaliseRequest) { q.Tenants = []string{"a", "nobody"} })
		}},
		{"approve", nil, func(a *asked) error { return a.approve(func(q *invoice.ApproveRequest) { q.Tenant = "nobody" }) }},
		{"note", nil, askNote},
	},
	invoice.ReasonUnmoved: {
		{"note", func(a *asked) { a.must(a.finalise(as)) }, askNote},
		{"approve", func(a *asked) { a.must(a.finalise(as)) }, askApprove},
	},
	invoice.ReasonMoved: {
		{"finalise", nil, func(a *asked) error { return a.finalise(func(q *invoice.FinaliseRequest) { q.Expect = zeros }) }},
		{"finalised", func(a *asked) { a.must(a.finalise(as)) }, func(a *asked) error {
			return a.finalise(func(q *invoice.FinaliseRequest) { q.Expect = zeros })
		}},
		{"approve", nil, func(a *asked) error { return a.approve(func(q *invoice.ApproveRequest) { q.Expect = zeros }) }},
		{"note", (*asked).noted, func(a *asked) error { return a.note(func(q *invoice.CorrectRequest) { q.Expect = zeros }) }},
	},
	invoice.ReasonDeleted: {
		{"finalise", (*asked).deleted, askFinalise},
		{"approve", (*asked).deleted, askApprove},
		{"note", func(a *asked) { a.noted(); a.deleted() }, askNote},
		{"load", (*asked).deleted, func(a *asked) error { return a.load(flatBook, "x", "") }},
	},
	invoice.ReasonQuarantined: {
		{"finalise", broken, askFinalise},
		{"approve", broken, askApprove},
		{"note", func(a *asked) { a.noted(); broken(a) }, askNote},
	},
	invoice.ReasonQuota: {
		{"load", (*asked).used, func(a *asked) error { return a.load(strings.Replace(flatBook, "2.49", "3.49", 1), "x", "") }},
		{"policy", (*asked).used, func(a *asked) error {
			var last decisions.Decided[decisions.Policy]
			a.Decisions.View(func(s *decisions.State) { last, _ = s.Policy() })
			return a.SetPolicy(a.t.Context(), decisions.Policy{Revision: last.Body.Revision + 1, Approvers: []string{}}, "alice")
		}},
	},
	invoice.ReasonKey: {
		{"finalise", bookK, func(a *asked) error { return a.finalise(func(q *invoice.FinaliseRequest) { q.Key = "k" }) }},
		{"approve", bookK, func(a *asked) error { return a.approve(func(q *invoice.ApproveRequest) { q.Key = "k" }) }},
		{"note", func(a *asked) { bookK(a); a.noted() }, func(a *asked) error { return a.note(func(q *invoice.CorrectRequest) { q.Key = "k" }) }},
		{"load", bookK, func(a *asked) error { return a.load(strings.Replace(flatBook, "2.49", "3.49", 1), "x", "k") }},
	},
	invoice.ReasonExpected: {
		{"approve", nil, func(a *asked) error { return a.approve(func(q *invoice.ApproveRequest) { q.Expect = "" }) }},
		{"finalise", nil, func(a *asked) error { return a.finalise(func(q *invoice.FinaliseRequest) { q.Expect = zeros[1:] }) }},
		{"note", (*asked).noted, func(a *asked) error {
			return a.note(func(q *invoice.CorrectRequest) { q.Expect = strings.Repeat("F", 64) })
		}},
	},
	invoice.ReasonName: {{"finalise", func(a *asked) { a.ledger.held = map[string]uint64{longTenant: 1_000_000} }, func(a *asked) error {
		return a.finalise(func(q *invoice.FinaliseRequest) { q.Tenants = nil })
	}}},
	invoice.ReasonApproval: {
		{"finalise", nil, func(a *asked) error { return a.finalise(func(q *invoice.FinaliseRequest) { q.Approved = true }) }},
		{"finalise all", nil, func(a *asked) error {
			return a.finalise(func(q *invoice.FinaliseRequest) { q.Approved, q.Tenants = true, nil })
		}},
		{"one's own", func(a *asked) { a.must(a.approve(as)) }, func(a *asked) error {
			return a.finalise(func(q *invoice.FinaliseRequest) { q.Approved, q.Who = true, "auditor" })
		}},
		{"note", (*asked).noted, func(a *asked) error { return a.note(func(q *invoice.CorrectRequest) { q.Approved = true }) }},
		{"approve", func(a *asked) { a.must(a.SetPolicy(a.t.Context(), policyOn, "alice")) }, askApprove},
		{"policy", func(a *asked) { a.must(a.SetPolicy(a.t.Context(), policyOn, "alice")) }, func(a *asked) error {
			return a.SetPolicy(a.t.Context(), decisions.Policy{Revision: 1, Approvers: []string{}}, "alice")
		}},
	},
	invoice.ReasonRecord: {
		{"finalise", nil, func(a *asked) error { return a.finalise(func(q *invoice.FinaliseRequest) { q.Who = "a\u200bb" }) }},
		{"approve", nil, func(a *asked) error { return a.approve(func(q *invoice.ApproveRequest) { q.Comment = "\a" }) }},
		{"note", (*asked).noted, func(a *asked) error {
			return a.note(func(q *invoice.CorrectRequest) { q.Who = strings.Repeat("x", 201) })
		}},
		{"load", nil, func(a *asked) error { return a.load(flatBook, "", "") }},
		{"policy", nil, func(a *asked) error {
			return a.SetPolicy(a.t.Context(), decisions.Policy{Revision: 7, Approvers: []string{}}, "alice")
		}},
	},
	invoice.ReasonLost: {{"note", func(a *asked) { a.ledger.inputs = 9; a.noted(); a.ledger.inputs = 1 }, askNote}},
	invoice.ReasonBook: {
		{"currency", func(a *asked) { a.must(a.finalise(as)) }, func(a *asked) error {
			return a.load(strings.Replace(flatBook, "USD", "EUR", 1), "x", "")
		}},
		{"zone", func(a *asked) { a.must(a.finalise(as)) }, func(a *asked) error {
			return a.load("time_zone: Asia/Tokyo\n"+flatBook, "x", "")
		}},
	},
	// Here another process did decide, while the command read the ledger: what it
	// decided stands, and nothing of the command's (TestF1TheOthersDecisionStands).
	invoice.ReasonRace: nil,
}

func bookK(a *asked) { a.must(a.load(flatBook, "x", "k")) }

func ask(t *testing.T, b *broker.Embedded) *asked {
	a := &asked{t: t, broker: b, ledger: &smallLedger{epoch: 1, inputs: 2, held: map[string]uint64{"a": 7_200_000, "b": 3_600_000}}}
	a.Register = invoicetest.Open(t, a.ledger, parse(t, flatBook), b)
	return a
}

// reasons are all there are.
var reasons = []invoice.Reason{
	invoice.ReasonOpen, invoice.ReasonNoRate, invoice.ReasonUnequal, invoice.ReasonNoUsage, invoice.ReasonNothing,
	invoice.ReasonUnmoved, invoice.ReasonMoved, invoice.ReasonDeleted, invoice.ReasonQuarantined, invoice.ReasonQuota,
	invoice.ReasonKey, invoice.ReasonExpected, invoice.ReasonName, invoice.ReasonApproval, invoice.ReasonRecord,
	invoice.ReasonLost, invoice.ReasonBook, invoice.ReasonRace,
}

// TestF1EveryRefusalLeavesTheTopicAsItWas: length and hash chain of the
// decisions' topic, for every reason and every request that can have it.
func TestF1EveryRefusalLeavesTheTopicAsItWas(t *testing.T) {
	for _, reason := range reasons {
		scenarios, known := refusals[reason]
		if !known {
			t.Errorf("reason %q has no scenario", reason)
		}
		for _, s := range scenarios {
			t.Run(string(reason)+"/"+s.name, func(t *testing.T) {
				a := ask(t, invoicetest.Broker(t))
				if s.arrange != nil {
					s.arrange(a)
				}
				length, chain := topic(a.Decisions)
				err := s.ask(a)
				if got, refused := invoice.ReasonOf(err); err == nil || !refused || got != reason {
					t.Errorf("%v is refused for %q, want %q", err, got, reason)
				}
				a.must(a.Decisions.Refresh(t.Context()))
				if l, c := topic(a.Decisions); l != length || c != chain {
					t.Errorf("%d records were appended by what was refused: %v", l-length, err)
				}
			})
		}
	}
}

// What another process decided while the ledger was read stands, and the one
// that was too late says so.
func TestF1TheOthersDecisionStands(t *testing.T) {
	b := invoicetest.Broker(t)
	mine, theirs := ask(t, b), ask(t, b)
	mine.ledger.later(3, func() { theirs.late(); theirs.must(theirs.finalise(as)) }) // when the mappings are read
	err := mine.finalise(as)
	if reason, _ := invoice.ReasonOf(err); reason != invoice.ReasonRace {
		t.Fatalf("%v, want to be told who was first", err)
	}
	var conflict *invoice.ConflictError
	if !errors.As(err, &conflict) {
		t.Errorf("%T", err)
	}
	mine.must(mine.Decisions.Refresh(t.Context()))
	mine.Decisions.View(func(s *decisions.State) {
		if all := s.Invoices(); len(all) != 1 || all[0].Body.GPUHours != "0.428571429" {
			t.Errorf("stands %+v, want theirs", all)
		}
	})
}

// Every constant of type Reason is among Reasons, and every *ConflictError is
// made where it must name one.
func TestF1EveryReasonIsDeclared(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var declared []invoice.Reason
	for _, file := range files {
		if name := file.Name(); !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if of, ok := n.Type.(*ast.Ident); ok && of.Name == "Reason" && len(n.Values) == 1 {
					declared = append(declared, invoice.Reason(strings.Trim(n.Values[0].(*ast.BasicLit).Value, `"`)))
				}
			case *ast.CompositeLit:
				if of, ok := n.Type.(*ast.Ident); ok && of.Name == "ConflictError" && file.Name() != "reasons.go" {
					t.Errorf("%s makes a ConflictError by itself", file.Name())
				}
			}
			return true
		})
	}
	all := slices.Clone(reasons)
	slices.Sort(all)
	slices.Sort(declared)
	if !slices.Equal(all, declared) {
		t.Errorf("declared are %v, the list of reasons has %v", declared, all)
	}
}
