package invoice

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/decisions"
)

// Adjustment is pending: the ledger's usage differs from that of an invoice and its notes.
type Adjustment struct {
	// Note is the note that would be decided now.
	Note Invoice `json:"note"`
	// Content is the SHA-256, in hex, of the note's bytes.
	Content string `json:"content_sha256"`
	// Reason is why the usage changed.
	Reason string `json:"reason"`
	// Hours is how many UTC hours changed, from First to Last.
	Hours int    `json:"hours"`
	First string `json:"first_hour"`
	Last  string `json:"last_hour"`
	// Closed: the note can be decided: the hours before the month's end are closed, and the invoice's price book has
	// all rates. Otherwise Open contains what is missing.
	Closed bool   `json:"closed"`
	Open   string `json:"open,omitempty"`

	before decisions.Invoice
	usage  []byte
	reason Reason // of Open
}

// Adjustments returns a month's pending adjustments by tenant. It reads the month once, however many invoices it has.
func (r *Register) Adjustments(ctx context.Context, period string) ([]Adjustment, error) {
	if err := r.refresh(ctx); err != nil {
		return nil, err
	}
	found, err := r.adjustments(ctx, period, r.chains(period))
	if err != nil {
		return nil, fmt.Errorf("find adjustments of %s: %w", period, err)
	}
	return found, nil
}

// recounted is an invoice whose usage is counted again.
type recounted struct {
	before  decisions.Invoice
	earlier source
	text    bytes.Buffer
	recopy  *rating.Recopy
	// quarantined is the first hour of the tenant that can't be counted; zero: none.
	quarantined time.Time
}

func (r *Register) adjustments(
	ctx context.Context, period string, chains [][]decisions.Invoice,
) ([]Adjustment, error) {
	changed, err := r.changed(ctx, period, chains)
	if err != nil {
		return nil, err
	}
	var found []Adjustment
	for _, c := range changed {
		adjustment, err := r.adjust(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("rate %s again: %w", c.before.Number, err)
		}
		found = append(found, adjustment)
	}
	return found, nil
}

// changed counts the usage of a month's invoices again, and returns those whose usage differs now.
func (r *Register) changed(ctx context.Context, period string, chains [][]decisions.Invoice) ([]*recounted, error) {
	month, err := rating.ParsePeriod(period)
	if err != nil || len(chains) == 0 {
		return nil, err
	}
	var all []*recounted
	for _, chain := range chains {
		c, err := r.recount(ctx, chain[len(chain)-1])
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	from, to := month.Range()
	err = readHours(ctx, r.deps.DB, nil, from, to, func(h hourOfUsage) error {
		for _, c := range all {
			if h.quarantined[c.before.Tenant] != nil && c.quarantined.IsZero() && !h.hour.Before(c.before.From) &&
				h.hour.Before(c.before.To) {
				c.quarantined = h.hour
			}
			if err := c.recopy.AddHour(h.hour, h.rows); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var changed []*recounted
	for _, c := range all {
		hash, err := c.recopy.Finish()
		if err != nil {
			return nil, err
		}
		if hash != c.before.Usage.SHA256 {
			changed = append(changed, c)
		}
	}
	return changed, nil
}

// recount prepares the copy of today's usage of the last document of a tenant's month.
func (r *Register) recount(ctx context.Context, before decisions.Invoice) (*recounted, error) {
	c := &recounted{before: before}
	var err error
	if c.earlier, err = r.source(ctx, before); err != nil {
		return nil, err
	}
	e := &c.earlier
	c.recopy, err = rating.NewRecopy(e.book, e.month, e.tenant, bytes.NewReader(e.usage), &c.text)
	return c, err
}

func (r *Register) adjust(ctx context.Context, c *recounted) (Adjustment, error) {
	now := c.earlier
	now.usage = c.text.Bytes()
	a := Adjustment{before: c.before, usage: now.usage}
	changed, err := changedHours(now.tenant, c.earlier.usage, now.usage)
	if err != nil {
		return a, err
	}
	if len(changed) > 0 {
		a.Hours, a.First, a.Last = len(changed), changed[0].Format(time.RFC3339), changed[len(changed)-1].Format(time.RFC3339)
	}
	if a.Reason, err = whyChanged(ctx, r.deps.DB, c.before, changed); err != nil {
		return a, err
	}
	difference, err := now.less(c.earlier.usage)
	if rating.NoRate(err) {
		nothing := rating.NewInvoice(now.book, now.month, now.tenant)
		difference = &nothing
		a.Open, a.reason = "the invoice's price book has no rate: "+err.Error(), ReasonNoRate
	} else if err != nil {
		return a, err
	}
	a.Note = *note(difference, c.before, a.Reason)
	if err := setContent(&a.Note); err != nil {
		return a, err
	}
	a.Content = a.Note.Content
	if !c.quarantined.IsZero() {
		a.Open = "the hour " + c.quarantined.Format(time.RFC3339) + " can't be billed; a draft of the month names the GPU"
		a.reason = ReasonQuarantined
	}
	if a.Open == "" {
		if a.Open, a.reason, err = r.waitsFor(ctx, c.before); err != nil {
			return a, err
		}
	}
	a.Closed = a.Open == ""
	return a, nil
}

// waitsFor returns why the ledger can't be used to correct an invoice yet; empty: it can. The journal only grows, and
// with it the inputs of the ledger's rows (R5): fewer inputs than before mean that hours were lost, not that usage
// decreased.
func (r *Register) waitsFor(ctx context.Context, before decisions.Invoice) (why string, reason Reason, err error) {
	if err := r.deps.Closed(ctx, before.To); err != nil {
		return err.Error(), ReasonOpen, nil
	}
	now, err := readLedgerState(ctx, r.deps.DB, before.From, before.To)
	if err == nil && now.inputs < before.Inputs {
		return fmt.Sprintf("the ledger's hours have fewer inputs, %d, than when %s was decided, %d: "+
			"some were lost; restore them first",
			now.inputs, before.Number, before.Inputs), ReasonLost, nil
	}
	return "", "", err
}

// CorrectRequest requests the note on a tenant's month.
type CorrectRequest struct {
	Period, Tenant string
	// Who decides, for display.
	Who string
	// Key is the idempotency key; empty: the note's number.
	Key string
	// Expect is as in FinaliseRequest, for the note.
	Expect string
	// Approved requires that somebody else has approved the note.
	Approved bool
}

// Correct decides the note of a pending adjustment. Errors: ErrNotFound if there is no invoice, ErrNothingToAdjust,
// *OpenHoursError, *MovedError, *ConflictError; after any of them nothing was appended.
func (r *Register) Correct(ctx context.Context, q CorrectRequest) (Decided, error) {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	if err := r.decidable(ctx); err != nil {
		return Decided{}, err
	}
	chain := r.chain(q.Tenant, q.Period)
	if len(chain) == 0 {
		return Decided{}, fmt.Errorf("correct invoice of tenant %q in %s: %w is finalised", q.Tenant, q.Period, ErrNotFound)
	}
	if number, used := r.used(q.Key); used {
		if record, ok := r.invoice(number); ok && record.Tenant == q.Tenant && record.Period == q.Period &&
			record.Revision > 0 {
			stands := decided(record, true)
			return stands, expected(stands, q.Expect)
		}
		return Decided{}, keyUsed()
	}
	if err := r.deps.Closed(ctx, chain[0].To); err != nil {
		return Decided{}, err
	}
	found, err := r.adjustments(ctx, q.Period, [][]decisions.Invoice{chain})
	if err != nil {
		return Decided{}, fmt.Errorf("correct invoice of tenant %q in %s: %w", q.Tenant, q.Period, err)
	}
	if len(found) == 0 {
		return Decided{}, fmt.Errorf("correct invoice of tenant %q in %s: its usage hasn't changed: %w", q.Tenant, q.Period,
			ErrNothingToAdjust)
	}
	if !found[0].Closed {
		return Decided{}, conflict(found[0].reason, "correct invoice of tenant %q in %s: %s", q.Tenant, q.Period,
			found[0].Open)
	}
	one, err := r.correctOne(ctx, q, &found[0])
	if err != nil {
		return Decided{}, fmt.Errorf("correct invoice of tenant %q in %s: %w", q.Tenant, q.Period, err)
	}
	return one, nil
}

func (r *Register) correctOne(ctx context.Context, q CorrectRequest, a *Adjustment) (Decided, error) {
	i := &intent{kind: decisions.KindNote, key: q.Key, who: q.Who}
	if i.key == "" {
		i.key = "note/" + request(a.Note.Number)
	}
	record, err := i.of(&a.Note, a.usage)
	if err != nil {
		return Decided{}, err
	}
	now, err := readLedgerState(ctx, r.deps.DB, record.From, record.To)
	if err != nil {
		return Decided{}, err
	}
	record.Epoch, record.Inputs = now.epoch, now.inputs
	record.Before = a.before.Content.SHA256
	inForce, err := r.bookInForce()
	if err != nil {
		return Decided{}, err
	}
	record.BilledIn = rating.PeriodOf(r.deps.Clock.Now(), inForce.Zone).String()
	if err := r.refuse(i, q.Expect, q.Approved); err != nil {
		return Decided{}, err
	}
	if _, err := r.noteMappings(ctx); err != nil {
		return Decided{}, err
	}
	return r.decide(ctx, i, a.usage)
}

// note makes the document of a difference; before is the last revision.
func note(difference *Invoice, before decisions.Invoice, reason string) *Invoice {
	document := finalised(difference)
	document.Revision = before.Revision + 1
	document.Number = decisions.Number(before.Period, before.Tenant, document.Revision)
	document.Kind = KindDebitNote
	if !difference.Total.IsPositive() {
		document.Kind = KindCreditNote
	}
	document.Corrects, document.Reason = before.Number, reason
	return document
}
