package invoice

import (
	"context"

	"github.com/gputally/gputally/internal/decisions"
)

// ask puts one question to the decisions as they were read last.
func ask[T any](r *Register, question func(*decisions.State) T) (answer T) {
	r.deps.Decisions.View(func(state *decisions.State) { answer = question(state) })
	return answer
}

// find asks for what may not be there.
func find[T any](r *Register, question func(*decisions.State) (T, bool)) (answer T, found bool) {
	r.deps.Decisions.View(func(state *decisions.State) { answer, found = question(state) })
	return answer, found
}

// lookup asks for what may not be there, by its key.
func lookup[T any](r *Register, question func(*decisions.State, string) (T, bool), key string) (T, bool) {
	return find(r, func(state *decisions.State) (T, bool) { return question(state, key) })
}

// publishedInForce is the price book that was published last; false: none was.
func (r *Register) publishedInForce() (*decisions.PriceBook, bool) {
	published, ok := find(r, (*decisions.State).BookInForce)
	return &published.Body, ok
}

// invoice is the record of an invoice or note.
func (r *Register) invoice(number string) (decisions.Invoice, bool) {
	record, ok := lookup(r, (*decisions.State).Invoice, number)
	return record.Body, ok
}

// used is the number that an idempotency key was used for.
func (r *Register) used(key string) (number string, ok bool) {
	outcome, ok := lookup(r, (*decisions.State).Used, key)
	return outcome.Number, ok
}

// chain is a tenant's invoice of a period and the notes on it; empty: none.
func (r *Register) chain(tenant, period string) []decisions.Invoice {
	return bodies(ask(r, func(s *decisions.State) []decisions.Decided[decisions.Invoice] {
		return s.Revisions(tenant, period)
	}))
}

// chains returns those of a period, by tenant; of all periods if it is empty.
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

// approvedBy returns the key of a valid approval of exactly these bytes; else a *ConflictError.
func (r *Register) approvedBy(who, content, subject string) (key string, err error) {
	r.deps.Decisions.View(func(s *decisions.State) { key, err = s.FindApproval(who, content, subject) })
	if err != nil {
		return "", conflict(ReasonApproval, "%v", err)
	}
	return key, nil
}

// append records a decision; a *ConflictError if the decisions refuse it, or would. If the same was decided before,
// it returns the earlier outcome.
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

// check returns the error with which the decisions would refuse a record.
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
