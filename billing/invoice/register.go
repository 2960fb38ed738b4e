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

// RegisterDeps are a register's dependencies; all but Approvals and Whole are required.
type RegisterDeps struct {
	DB        DB
	Decisions *decisions.Log
	// Book is the configured price book. It is in force until one is published.
	Book *prices.Book
	// Closed returns an *OpenHoursError unless all hours before to are closed (R3).
	Closed func(ctx context.Context, to time.Time) error
	Clock  clock.Clock
	// Approvals requires somebody else's approval of every invoice and note; a request may also require it itself.
	Approvals bool
	// Whole returns an error if decisions are missing, as after damage to the topic's files: what was decided must
	// not be decided again. Nil: not checked.
	Whole func(ctx context.Context) error
}

// Register has the decided invoices, and drafts of the others (R20). Its state comes only from the decisions; usage
// is read from the ledger. It is safe for concurrent use.
type Register struct {
	deps RegisterDeps
	// known is the book in force as last read.
	known atomic.Pointer[prices.Book]
	books prices.Cache
	// deciding serialises decisions: of many requests for the same one, the first does the work.
	deciding sync.Mutex
}

// NewRegister checks the dependencies.
func NewRegister(deps RegisterDeps) (*Register, error) {
	if deps.DB == nil || deps.Decisions == nil || deps.Book == nil || deps.Closed == nil || deps.Clock == nil {
		return nil, errors.New("make invoice register: store, decisions, price book, closed hours and clock are required")
	}
	r := &Register{deps: deps}
	r.known.Store(deps.Book)
	// A published book that can't be parsed is no error here, so that another one can still be published. Requests
	// that need the book return the error.
	_, _ = r.bookInForce()
	return r, nil
}

// refresh reads the decisions up to now.
func (r *Register) refresh(ctx context.Context) error {
	if err := r.deps.Decisions.Refresh(ctx); err != nil {
		return fmt.Errorf("read decisions: %w", err)
	}
	return nil
}

// decidable is refresh for requests that decide: it also fails if the log lacks what its copy has, or differs from it.
func (r *Register) decidable(ctx context.Context) error {
	if r.deps.Whole != nil {
		if err := r.deps.Whole(ctx); err != nil {
			return err
		}
	}
	return r.refresh(ctx)
}

// Book returns the price book in force: the one that was published last; if none was, the configured one. It fails if
// the published text can't be parsed. Don't modify the book.
func (r *Register) Book(ctx context.Context) (*prices.Book, error) {
	if err := r.refresh(ctx); err != nil {
		return nil, err
	}
	return r.bookInForce()
}

// Known is the price book in force, as of the last read decisions.
func (r *Register) Known() *prices.Book { return r.known.Load() }

func (r *Register) bookInForce() (*prices.Book, error) {
	inForce := r.deps.Book
	if published, ok := r.publishedInForce(); ok {
		var err error
		if inForce, err = r.Parsed(published); err != nil {
			return nil, err
		}
	}
	r.known.Store(inForce)
	return inForce, nil
}

// book is a published price book, by its hash.
func (r *Register) book(hash string) (*prices.Book, error) {
	published, ok := lookup(r, (*decisions.State).Book, hash)
	if !ok {
		return nil, fmt.Errorf("find price book %s: it was never published", hash)
	}
	return r.Parsed(&published.Body)
}

// Parsed returns a published price book, parsed once for all callers. Don't modify it.
func (r *Register) Parsed(published *decisions.PriceBook) (*prices.Book, error) {
	parsed, err := r.books.Parse(published.Name, published.Text)
	if err != nil {
		return nil, fmt.Errorf("read published price book %s: %w", published.SHA256, err)
	}
	return parsed, nil
}

// Publish puts a price book in force, and returns whether it was not in force before. Finalised invoices keep theirs.
func (r *Register) Publish(ctx context.Context, b *prices.Book, who, key string) (published bool, err error) {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	if err := r.decidable(ctx); err != nil {
		return false, err
	}
	return r.publish(ctx, b, who, key)
}

func (r *Register) publish(ctx context.Context, b *prices.Book, who, key string) (bool, error) {
	last, ok := r.publishedInForce()
	if ok && last.SHA256 == b.Hash {
		return false, nil
	}
	if err := r.fits(b); err != nil {
		return false, err
	}
	if key == "" {
		key = fmt.Sprintf("price_book/%d/%s", ask(r, (*decisions.State).Next), b.Hash)
	}
	body, what := &decisions.PriceBook{SHA256: b.Hash, Name: b.Name, Text: b.Text}, request("price_book", b.Hash)
	outcome, err := r.append(ctx, decisions.KindPriceBook, key, what, who, body)
	if err != nil {
		return false, fmt.Errorf("publish price book %s: %w", b.Name, err)
	}
	if last, ok := r.publishedInForce(); outcome.Repeats >= 0 && ok && last.SHA256 != b.Hash {
		return false, conflict(ReasonKey,
			"price book %s was published with this key before, at offset %d; in force is %s by now: publish it with another key",
			b.Name, outcome.Repeats, last.Name)
	}
	return outcome.Repeats < 0, nil
}

// fits returns an error if a book contradicts decided invoices: the fleet has one currency, and a tenant's zone can't
// change any more (R17, R19).
func (r *Register) fits(b *prices.Book) error {
	for _, record := range r.all() {
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

// Drafts returns drafts with the book in force and the frozen hours.
func (r *Register) Drafts(ctx context.Context, period string) (*Drafts, error) {
	if err := r.refresh(ctx); err != nil {
		return nil, err
	}
	return r.drafts(ctx, period)
}

func (r *Register) drafts(ctx context.Context, period string) (*Drafts, error) {
	month, err := rating.ParsePeriod(period)
	if err != nil {
		return nil, err
	}
	inForce, err := r.bookInForce()
	if err != nil {
		return nil, err
	}
	from, to := month.Range()
	frozen, err := r.frozen(ctx, from, to)
	if err != nil {
		return nil, err
	}
	return NewDrafts(r.deps.DB, inForce).Frozen(frozen), nil
}

// List returns a month with its finalised invoices, their notes, and drafts for the tenants without one; and the
// platform's account. Documents are sorted by tenant and revision; errors as in Drafts.List.
func (r *Register) List(ctx context.Context, period string) (*Month, error) {
	if err := r.refresh(ctx); err != nil {
		return nil, err
	}
	drafts, err := r.drafts(ctx, period)
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
	return month, r.fillIn(ctx, month)
}

// Show returns a tenant's invoice of a month, finalised or a draft, and its notes; errors as in List, or ErrNotFound.
func (r *Register) Show(ctx context.Context, period, tenant string) ([]Invoice, error) {
	if err := r.refresh(ctx); err != nil {
		return nil, err
	}
	if chain := r.chain(tenant, period); len(chain) > 0 {
		return r.documents(ctx, chain)
	}
	drafts, err := r.drafts(ctx, period)
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

// Document returns a finalised invoice or note by its number, in the decided bytes; ErrNotFound.
func (r *Register) Document(ctx context.Context, number string) ([]byte, error) {
	if err := r.refresh(ctx); err != nil {
		return nil, err
	}
	record, ok := r.invoice(number)
	if !ok {
		return nil, fmt.Errorf("show invoice %q: %w", number, ErrNotFound)
	}
	return r.content(ctx, record)
}

// Head identifies all decisions up to a finalised invoice or note: the offset and the chain's value there, as
// OFFSET=CHAIN; empty for a draft. It is displayed with the document, but not part of its bytes.
func (r *Register) Head(number string) (head string) {
	r.deps.Decisions.View(func(state *decisions.State) {
		if i, ok := state.Invoice(number); ok {
			head = state.HeadAt(i.Offset).String()
		}
	})
	return head
}
