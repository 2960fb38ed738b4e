package invoice

import (
	"context"

	"github.com/gputally/gputally/internal/decisions"
)

// ask returns question's answer from the state of the decisions, as of the last read.
func ask[T any](r *Register, question func(*decisions.State) T) (answer T) {
	r.deps.Decisions.View(func(state *decisions.State) { answer = question(state) })
	return answer
}

// find is ask for something that the state may not have; found reports whether it does.
func find[T any](r *Register, question func(*decisions.State) (T, bool)) (answer T, found bool) {
	r.deps.Decisions.View(func(state *decisions.State) { answer, found = question(state) })
	return answer, found
}

// lookup is find by a key.
func lookup[T any](r *Register, question func(*decisions.State, string) (T, bool), key string) (T, bool) {
	return find(r, func(state *decisions.State) (T, bool) { return question(state, key) })
}

// publishedInForce is the price book that was published last; false: none was published.
func (r *Register) publishedInForce() (*decisions.PriceBook, bool) {
	published, ok := find(r, (*decisions.State).BookInForce)
	return &published.Body, ok
}

// invoice is the record of an invoice or note.
func (r *Register) invoice(number string) (decisions.Invoice, bool) {
	record, ok := lookup(r, (*decisions.State).Invoice, number)
	return record.Body, ok
}

// used reports whether an idempotency key was used, and for which invoice or note; number is empty if it decided
// something else.
func (r *Register) used(key string) (number string, ok bool) {
	outcome, ok := lookup(r, (*decisions.State).Used, key)
	return outcome.Number, ok
}

// chain returns a tenant's invoice of a period, then the notes on it by revision; empty: there is no invoice.
func (r *Register) chain(tenant, period string) []decisions.Invoice {
	return bodies(ask(r, func(s *decisions.State) []decisions.Decided[decisions.Invoice] {
		return s.Revisions(tenant, period)
	}))
}

// chains returns the chain of every tenant in a period, by tenant; an empty period stands for all periods.
func (r *Register) chains(period string) (chains [][]decisions.Invoice) {
	for _, i := range r.all() {
		switch {
		case period != "" && i.Period != period:
		case i.Revision == 0:
			chains = append(chains, []decisions.Invoice{i})
		default:
			chains[len(chains)-1] = append(chains[len(chains)-1], i)
		}
	}
	return chains
}

// all returns all invoices and notes by period, tenant and revision.
func (r *Register) all() []decisions.Invoice { return bodies(ask(r, (*decisions.State).Invoices)) }

func bodies(list []decisions.Decided[decisions.Invoice]) []decisions.Invoice {
	out := make([]decisions.Invoice, len(list))
	for i := range list {
		out[i] = list[i].Body
	}
	return out
}

// needsApproval returns whether the policy in force requires approvals.
func (r *Register) needsApproval() bool {
	policy, _ := find(r, (*decisions.State).Policy)
	return policy.Body.Approvals
}

// approvedBy returns the key of an approval with which who may decide subject with this content (SHA-256); if there
// is none, a *ConflictError.
func (r *Register) approvedBy(who, content, subject string) (key string, err error) {
	r.deps.Decisions.View(func(s *decisions.State) { key, err = s.FindApproval(who, content, subject) })
	if err != nil {
		return "", conflict(ReasonApproval, "%v", err)
	}
	return key, nil
}

// append appends a decision to the log and returns its outcome. If the same request (what) was decided with this key
// before, it returns the earlier outcome. A decision that the log refuses is a *ConflictError; one that check foresees
// to be refused isn't appended.
func (r *Register) append(ctx context.Context, kind decisions.Kind, key, what, who string, body any) (
	outcome decisions.Outcome, err error,
) {
	if err := r.check(kind, key, what, who, body); err != nil {
		return outcome, err
	}
	outcome, err = r.deps.Decisions.Append(ctx, kind, key, what, who, body)
	if err == nil && !outcome.Accepted {
		err = conflict(ReasonRace, "the %s was refused: %s", kind, outcome.Reason)
	}
	return outcome, err
}

// check returns a *ConflictError if the log would refuse the record, and nil if it would accept it.
func (r *Register) check(kind decisions.Kind, key, request, who string, body any) error {
	err := r.deps.Decisions.Check(kind, key, request, who, body)
	if _, refused := ReasonOf(err); err == nil || refused {
		return err
	}
	reason := ReasonRecord
	if _, used := r.used(key); used {
		reason = ReasonKey
	}
	return conflict(reason, "%v", err)
}
