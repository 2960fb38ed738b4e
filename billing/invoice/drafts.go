package invoice

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
)

// Drafts recomputes invoices from the ledger at each request.
type Drafts struct {
	db     DB
	book   *prices.Book
	frozen *rating.Frozen
}

// NewDrafts returns drafts from db, rated by book.
func NewDrafts(db DB, book *prices.Book) *Drafts { return &Drafts{db: db, book: book} }

// Frozen returns the same drafts with the distribution and supply in frozen for the hours it covers (R17).
func (d *Drafts) Frozen(frozen *rating.Frozen) *Drafts {
	return &Drafts{db: d.db, book: d.book, frozen: frozen}
}

// Book is the price book in use.
func (d *Drafts) Book() *prices.Book { return d.book }

// Month is a whole month: the tenants' invoices, sorted by tenant, and the platform's account.
type Month struct {
	Period   string    `json:"period"`
	Currency string    `json:"currency"`
	Invoices []Invoice `json:"invoices"`
	Platform Platform  `json:"platform"`
}

// List drafts a month such as "2026-10". Each tenant's month is in its own zone, the platform's in the book's. Hours
// that can't be billed, or whose models have no rate, are left out, and their documents describe them. Errors: an
// invalid period, usage before the book's first version (rating.BeforeBookError), a ViolationError.
func (d *Drafts) List(ctx context.Context, period string) (*Month, error) {
	return d.rate(ctx, period, rating.Options{})
}

// Charges drafts a month and calls observe for every charge, including the platform's; if it fails, ignore the
// observed charges.
func (d *Drafts) Charges(ctx context.Context, period string, observe func(rating.Charge)) (*Month, error) {
	return d.rate(ctx, period, rating.Options{Observe: observe})
}

func (d *Drafts) rate(ctx context.Context, period string, options rating.Options) (*Month, error) {
	month, err := rating.ParsePeriod(period)
	if err != nil {
		return nil, err
	}
	options.Frozen = d.frozen
	run := newRun(d.book, month, options)
	if err := readMonth(ctx, d.db, run, run.add); err != nil {
		return nil, fmt.Errorf("draft invoices of %s: %w", period, err)
	}
	result, err := run.finish()
	if err != nil {
		return nil, fmt.Errorf("draft invoices of %s: %w", period, err)
	}
	return result, nil
}

// Show drafts one tenant's invoice; errors as in List, or ErrNotFound.
func (d *Drafts) Show(ctx context.Context, period, tenant string) (*Invoice, error) {
	month, err := d.List(ctx, period)
	if err != nil {
		return nil, err
	}
	for i := range month.Invoices {
		if month.Invoices[i].Tenant == tenant {
			return &month.Invoices[i], nil
		}
	}
	return nil, fmt.Errorf("show invoice of tenant %q in %s: %w", tenant, period, ErrNotFound)
}

// run is one pass over a month.
type run struct {
	book           *prices.Book
	period         rating.Period
	rater          *rating.Rater
	value          *rating.ListValue
	unattributedMJ decimal.Decimal
	frozen         []time.Time // frozen hours that are yet to come
	quarantined    map[string]*quarantined
}

func newRun(book *prices.Book, period rating.Period, options rating.Options) *run {
	r := &run{
		book: book, period: period, value: rating.NewListValue(book),
		rater: rating.NewRater(book, period, options), quarantined: map[string]*quarantined{},
	}
	from, to := period.Range()
	for _, hour := range options.Frozen.Hours() {
		if !hour.Before(from) && hour.Before(to) {
			r.frozen = append(r.frozen, hour)
		}
	}
	return r
}

// catchUp adds the frozen hours before one, of which the ledger no longer has rows; it has rows of the hour itself.
func (r *run) catchUp(hour time.Time) error {
	for len(r.frozen) > 0 && !r.frozen[0].After(hour) {
		if at := r.frozen[0]; at.Before(hour) {
			if err := r.rater.AddHour(at, nil); err != nil {
				return err
			}
		}
		r.frozen = r.frozen[1:]
	}
	return nil
}

func (r *run) add(h hourOfUsage) error {
	if err := r.catchUp(h.hour); err != nil {
		return err
	}
	if err := r.rater.AddHour(h.hour, h.rows); err != nil {
		return err
	}
	r.note(h)
	if rating.PeriodOf(h.hour, r.book.Zone) != r.period || h.quarantined != nil {
		return nil
	}
	r.unattributedMJ = r.unattributedMJ.Add(h.unattributedMJ)
	return r.conserve(h)
}

func (r *run) conserve(h hourOfUsage) error {
	if err := r.value.AddRows(h.rows); err != nil {
		return err
	}
	for _, capacity := range h.capacity {
		if err := r.value.AddCapacity(capacity); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) finish() (*Month, error) {
	_, to := r.period.Range()
	if err := r.catchUp(to); err != nil {
		return nil, err
	}
	result, err := r.rater.Finish()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(rating.Check(result), r.value.Check()); err != nil {
		return nil, &ViolationError{err}
	}
	month := &Month{Period: r.period.String(), Currency: r.book.Currency, Invoices: []Invoice{}, Platform: result.Platform}
	for i := range result.Invoices {
		month.Invoices = append(month.Invoices, *asDraft(&result.Invoices[i]))
	}
	p := &month.Platform
	p.UnattributedEnergyMJ, p.TenantsList = rating.Exact(r.unattributedMJ), rating.Exact(r.value.Tenants)
	p.CapacityList = rating.Exact(r.value.Capacity())
	r.fill(month)
	return month, nil
}
