package invoice

import (
	"time"

	"github.com/gputally/gputally/internal/decisions"
)

// decidedState asks the decisions that were read so far.
type decidedState struct{ log *decisions.Log }

// ask is one question to the state as it is now.
func ask[T any](s decidedState, question func(*decisions.State) T) (answer T) {
	s.log.View(func(state *decisions.State) { answer = question(state) })
	return answer
}

func (s decidedState) bookInForce() (*decisions.PriceBook, bool) {
	book := ask(s, func(state *decisions.State) *decisions.PriceBook {
		if b, ok := state.BookInForce(); ok {
			return &b.Body
		}
		return nil
	})
	return book, book != nil
}

func (s decidedState) book(hash string) (*decisions.PriceBook, bool) {
	book := ask(s, func(state *decisions.State) *decisions.PriceBook {
		if b, ok := state.Book(hash); ok {
			return &b.Body
		}
		return nil
	})
	return book, book != nil
}

// lastMapping is the epoch of the mapping that was noted last; 0: none was.
func (s decidedState) lastMapping() (epoch uint32) {
	for _, m := range ask(s, (*decisions.State).Mappings) {
		epoch = max(epoch, m.Body.Epoch)
	}
	return epoch
}

// freezes are those that overlap [from, to), ascending.
func (s decidedState) freezes(from, to time.Time) (overlapping []decisions.Freeze) {
	for _, f := range ask(s, (*decisions.State).Freezes) {
		if f.Body.From.Before(to) && from.Before(f.Body.To) {
			overlapping = append(overlapping, f.Body)
		}
	}
	return overlapping
}

func (s decidedState) unfrozen(from, to time.Time) []decisions.Span {
	return ask(s, func(state *decisions.State) []decisions.Span { return state.Unfrozen(from, to) })
}

func (s decidedState) invoice(number string) (decisions.Invoice, bool) {
	found := ask(s, func(state *decisions.State) *decisions.Invoice {
		if i, ok := state.Invoice(number); ok {
			return &i.Body
		}
		return nil
	})
	if found == nil {
		return decisions.Invoice{}, false
	}
	return *found, true
}

// chain is a tenant's invoice of a period and the notes on it; empty: none.
func (s decidedState) chain(tenant, period string) []decisions.Invoice {
	return bodies(ask(s, func(state *decisions.State) []decisions.Decided[decisions.Invoice] {
		return state.Revisions(tenant, period)
	}))
}

// chains are those of a period, by tenant; of all periods where it is empty.
func (s decidedState) chains(period string) (chains [][]decisions.Invoice) {
	for _, i := range s.all() {
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

// billed are the invoices of a period and the notes that are billed in it.
func (s decidedState) billed(period string) (list []decisions.Invoice) {
	for _, i := range s.all() {
		if i.Revision == 0 && i.Period == period || i.BilledIn == period {
			list = append(list, i)
		}
	}
	return list
}

// all are by period, tenant and revision.
func (s decidedState) all() []decisions.Invoice { return bodies(ask(s, (*decisions.State).Invoices)) }

func bodies(list []decisions.Decided[decisions.Invoice]) []decisions.Invoice {
	out := make([]decisions.Invoice, len(list))
	for i := range list {
		out[i] = list[i].Body
	}
	return out
}

// used is the number that an idempotency key was used for.
func (s decidedState) used(key string) (number string, ok bool) {
	type use struct {
		outcome decisions.Outcome
		ok      bool
	}
	u := ask(s, func(state *decisions.State) use {
		outcome, ok := state.Used(key)
		return use{outcome, ok}
	})
	return u.outcome.Number, u.ok
}

// approval is the one that an idempotency key gave.
func (s decidedState) approval(key string) (approval decisions.Decided[decisions.Approval], ok bool) {
	s.log.View(func(state *decisions.State) { approval, ok = state.Approval(key) })
	return approval, ok
}

func (s decidedState) next() int64 { return ask(s, (*decisions.State).Next) }
