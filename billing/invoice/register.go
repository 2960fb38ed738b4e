package invoice

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions"
)

// RegisterDeps of a register; all but Approvals and Whole are needed.
type RegisterDeps struct {
	DB        DB
	Decisions *decisions.Log
	// Book is the configured price book. It counts until one is published.
	Book *prices.Book
	// Closed fails with an *OpenHoursError unless all hours before to are closed (R3).
	Closed func(ctx context.Context, to time.Time) error
	Clock  clock.Clock
	// Approvals wants somebody else's approval of every invoice and note, whoever
	// asks; a request may want it by itself, too.
	Approvals bool
	// Whole fails where the decisions lack what was decided, as a topic does
	// whose files were damaged: what was decided must not be decided again. Nil:
	// there is nothing to compare them with.
	Whole func(ctx context.Context) error
}

// Register keeps the invoices that were decided, beside the drafts of those
// that were not (R20). What it knows comes from the decisions alone; the ledger
// is asked for usage. It is safe for concurrent use.
type Register struct {
	deps RegisterDeps
	// known is the book in force as it was read last.
	known atomic.Pointer[prices.Book]
	books prices.Cache
	// deciding lets one decision at a time be made here: of many requests for
	// the same one, the first does the work.
	deciding sync.Mutex
}

// NewRegister checks the dependencies.
func NewRegister(deps RegisterDeps) (*Register, error) {
	if deps.DB == nil || deps.Decisions == nil || deps.Book == nil || deps.Closed == nil || deps.Clock == nil {
		return nil, errors.New("make invoice register: store, decisions, price book, closed hours and clock are all needed")
	}
	r := &Register{deps: deps}
	r.known.Store(deps.Book)
	// A published book that can't be read is told to who asks for it: another one
	// can still be published.
	_, _ = r.bookInForce(decidedState{deps.Decisions})
	return r, nil
}

// view is the state of the decisions, read up to now.
func (r *Register) view(ctx context.Context) (decidedState, error) {
	if err := r.deps.Decisions.Refresh(ctx); err != nil {
		return decidedState{}, fmt.Errorf("read decisions: %w", err)
	}
	return decidedState{r.deps.Decisions}, nil
}

// decidable is the view to decide on: nothing of what was decided is missing.
func (r *Register) decidable(ctx context.Context) (decidedState, error) {
	if r.deps.Whole != nil {
		if err := r.deps.Whole(ctx); err != nil {
			return decidedState{}, err
		}
	}
	return r.view(ctx)
}

// Book is the price book in force: the one published last, else the configured
// one. Nobody may change it; it fails where that one can't be read.
func (r *Register) Book(ctx context.Context) (*prices.Book, error) {
	state, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	return r.bookInForce(state)
}

// Known is the price book in force, as far as decisions were read.
func (r *Register) Known() *prices.Book { return r.known.Load() }

func (r *Register) bookInForce(state decidedState) (*prices.Book, error) {
	inForce := r.deps.Book
	if published, ok := state.bookInForce(); ok {
		var err error
		if inForce, err = r.Parsed(published); err != nil {
			return nil, err
		}
	}
	r.known.Store(inForce)
	return inForce, nil
}

// book is a published price book, by its hash.
func (r *Register) book(state decidedState, hash string) (*prices.Book, error) {
	published, ok := state.book(hash)
	if !ok {
		return nil, fmt.Errorf("find price book %s: it was never published", hash)
	}
	return r.Parsed(published)
}

// Parsed is a published price book, parsed once for all who ask. Nobody may
// change it.
func (r *Register) Parsed(published *decisions.PriceBook) (*prices.Book, error) {
	parsed, err := r.books.Parse(published.Name, published.Text)
	if err != nil {
		return nil, fmt.Errorf("read published price book %s: %w", published.SHA256, err)
	}
	return parsed, nil
}

// Publish makes a price book the one in force, and says whether it was not
// already. Invoices that were finalised keep theirs.
func (r *Register) Publish(ctx context.Context, b *prices.Book, who, key string) (published bool, err error) {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	state, err := r.decidable(ctx)
	if err != nil {
		return false, err
	}
	return r.publish(ctx, state, b, who, key)
}

func (r *Register) publish(ctx context.Context, state decidedState, b *prices.Book, who, key string) (bool, error) {
	last, ok := state.bookInForce()
	if ok && last.SHA256 == b.Hash {
		return false, nil
	}
	if err := fits(state, b); err != nil {
		return false, err
	}
	if key == "" {
		key = fmt.Sprintf("price_book/%d/%s", ask(state, (*decisions.State).Next), b.Hash)
	}
	body, what := &decisions.PriceBook{SHA256: b.Hash, Name: b.Name, Text: b.Text}, request("price_book", b.Hash)
	if err := r.check(state, decisions.KindPriceBook, key, what, who, body); err != nil {
		return false, fmt.Errorf("publish price book %s: %w", b.Name, err)
	}
	outcome, err := r.deps.Decisions.Append(ctx, decisions.KindPriceBook, key, what, who, body)
	if err != nil {
		return false, fmt.Errorf("publish price book %s: %w", b.Name, err)
	}
	if !outcome.Accepted && outcome.Repeats < 0 {
		return false, conflict(ReasonRace, "price book %s was not published: %s", b.Name, outcome.Reason)
	}
	if last, ok := state.bookInForce(); outcome.Repeats >= 0 && ok && last.SHA256 != b.Hash {
		return false, conflict(ReasonKey,
			"price book %s was published with this key before, at offset %d; in force is %s by now: publish it with another key",
			b.Name, outcome.Repeats, last.Name)
	}
	return outcome.Repeats < 0, nil
}

// fits says whether a book can follow the invoices that stand: the fleet has one
// currency, and a tenant's zone can't change any more (R17, R19).
func fits(state decidedState, b *prices.Book) error {
	for _, record := range state.all() {
		zone := b.Location(record.Tenant).String()
		switch {
		case record.Currency != b.Currency:
			return conflict(ReasonBook, "price book %s: currency is %s, the finalised invoice %s is in %s", b.Name, b.Currency,
				record.Number, record.Currency)
		case record.TimeZone != zone:
			return conflict(ReasonBook, "price book %s: time zone of tenant %q is %s, its finalised invoice %s is in %s",
				b.Name, record.Tenant, zone, record.Number, record.TimeZone)
		}
	}
	return nil
}

// Drafts are by the book in force, with the hours that are frozen.
func (r *Register) Drafts(ctx context.Context, period string) (*Drafts, error) {
	state, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	return r.drafts(ctx, state, period)
}

func (r *Register) drafts(ctx context.Context, state decidedState, period string) (*Drafts, error) {
	month, err := rating.ParsePeriod(period)
	if err != nil {
		return nil, err
	}
	inForce, err := r.bookInForce(state)
	if err != nil {
		return nil, err
	}
	from, to := month.Range()
	frozen, err := r.frozen(ctx, state, from, to)
	if err != nil {
		return nil, err
	}
	return NewDrafts(r.deps.DB, inForce).Frozen(frozen), nil
}

// List is a month with its finalised invoices, the notes on them, and drafts
// for the tenants that have none yet; and the platform's account. Documents are
// sorted by tenant and revision; errors as in Drafts.List.
func (r *Register) List(ctx context.Context, period string) (*Month, error) {
	state, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	drafts, err := r.drafts(ctx, state, period)
	if err != nil {
		return nil, err
	}
	month, err := drafts.List(ctx, period)
	if err != nil {
		return nil, err
	}
	for i := range month.Invoices {
		if err := setContent(&month.Invoices[i]); err != nil {
			return nil, err
		}
	}
	return month, r.fillIn(ctx, state, month)
}

// Show is a tenant's invoice of a month, finalised or a draft, and the notes on
// it; errors as in List, or ErrNotFound.
func (r *Register) Show(ctx context.Context, period, tenant string) ([]Invoice, error) {
	state, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	if chain := state.chain(tenant, period); len(chain) > 0 {
		return r.documents(ctx, chain)
	}
	drafts, err := r.drafts(ctx, state, period)
	if err != nil {
		return nil, err
	}
	draft, err := drafts.Show(ctx, period, tenant)
	if err != nil {
		return nil, err
	}
	err = setContent(draft)
	return []Invoice{*draft}, err
}

// Document is a finalised invoice or note by its number, in the bytes that were
// decided; ErrNotFound.
func (r *Register) Document(ctx context.Context, number string) ([]byte, error) {
	state, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	record, ok := state.invoice(number)
	if !ok {
		return nil, fmt.Errorf("show invoice %q: %w", number, ErrNotFound)
	}
	return r.content(ctx, record)
}

// Head stands for all that was decided up to a finalised invoice or note: the
// offset and the chain's value there, as OFFSET=CHAIN; empty for a draft. It is
// shown beside the document, whose bytes it is no part of.
func (r *Register) Head(number string) string {
	return ask(decidedState{r.deps.Decisions}, func(state *decisions.State) string {
		if i, ok := state.Invoice(number); ok {
			return state.HeadAt(i.Offset).String()
		}
		return ""
	})
}

// decidedState asks the decisions that were read so far.
type decidedState struct{ log *decisions.Log }

// ask is one question to the state as it is now.
func ask[T any](s decidedState, question func(*decisions.State) T) (answer T) {
	s.log.View(func(state *decisions.State) { answer = question(state) })
	return answer
}

// find is the body of a decision that may not be there.
func find[T any](s decidedState, question func(*decisions.State) (decisions.Decided[T], bool)) (body *T, found bool) {
	s.log.View(func(state *decisions.State) {
		var decided decisions.Decided[T]
		if decided, found = question(state); found {
			body = &decided.Body
		}
	})
	return body, found
}

func (s decidedState) bookInForce() (*decisions.PriceBook, bool) {
	return find(s, (*decisions.State).BookInForce)
}

func (s decidedState) book(hash string) (*decisions.PriceBook, bool) {
	return find(s, func(state *decisions.State) (decisions.Decided[decisions.PriceBook], bool) { return state.Book(hash) })
}

func (s decidedState) invoice(number string) (record decisions.Invoice, found bool) {
	body, found := find(s, func(state *decisions.State) (decisions.Decided[decisions.Invoice], bool) {
		return state.Invoice(number)
	})
	if found {
		record = *body
	}
	return record, found
}

// approval is the one that an idempotency key gave.
func (s decidedState) approval(key string) (approval decisions.Decided[decisions.Approval], ok bool) {
	s.log.View(func(state *decisions.State) { approval, ok = state.Approval(key) })
	return approval, ok
}

// used is the number that an idempotency key was used for.
func (s decidedState) used(key string) (number string, ok bool) {
	s.log.View(func(state *decisions.State) {
		var outcome decisions.Outcome
		outcome, ok = state.Used(key)
		number = outcome.Number
	})
	return number, ok
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

// all are by period, tenant and revision.
func (s decidedState) all() []decisions.Invoice { return bodies(ask(s, (*decisions.State).Invoices)) }

func bodies(list []decisions.Decided[decisions.Invoice]) []decisions.Invoice {
	out := make([]decisions.Invoice, len(list))
	for i := range list {
		out[i] = list[i].Body
	}
	return out
}
