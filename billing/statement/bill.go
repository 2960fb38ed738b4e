package statement

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/rating"
)

// bill is a tenant's month: its invoice or draft, and the notes on it.
type bill struct {
	*invoice.Invoice
	documents []invoice.Invoice // the invoice or draft first
	Zone      *time.Location
}

func newBill(documents []invoice.Invoice) (*bill, error) {
	if len(documents) == 0 {
		return nil, errors.New("read documents: the list is empty")
	}
	zone, err := time.LoadLocation(documents[0].TimeZone)
	if err != nil {
		return nil, fmt.Errorf("read document %q: %w", documents[0].Number, err)
	}
	return &bill{Invoice: &documents[0], documents: documents, Zone: zone}, nil
}

// lines are those of all documents.
func (b *bill) lines() iter.Seq[*invoice.Line] {
	return func(yield func(*invoice.Line) bool) {
		for i := range b.documents {
			for n := range b.documents[i].Lines {
				if !yield(&b.documents[i].Lines[n]) {
					return
				}
			}
		}
	}
}

func (b *bill) draft() bool { return b.Status == invoice.StatusDraft }

// TotalName is the label of the first document's total.
func (b *bill) TotalName() string {
	if b.draft() {
		return "Draft total"
	}
	return "Invoice total"
}

// Net is the invoice with all its notes.
func (b *bill) Net() decimal.Decimal {
	return b.sum(func(of *invoice.Invoice) decimal.Decimal { return of.Total.Decimal })
}

// NetHours are the invoice's GPU-hours, as corrected by its notes.
func (b *bill) NetHours() decimal.Decimal {
	return b.sum(func(of *invoice.Invoice) decimal.Decimal { return of.GPUHours.Decimal })
}

func (b *bill) sum(figure func(*invoice.Invoice) decimal.Decimal) decimal.Decimal {
	total := decimal.Zero
	for i := range b.documents {
		total = total.Add(figure(&b.documents[i]))
	}
	return total
}

// Held are the GPU-hours by bucket in the list lines of all documents.
func (b *bill) Held() (h hours) {
	for l := range b.lines() {
		if l.Effect != rating.EffectList {
			continue
		}
		for i := range heldBuckets {
			if heldBuckets[i].Name == l.Bucket {
				h.by[i] = h.by[i].Add(l.Quantity.Decimal)
			}
		}
	}
	return h
}

// driftHours is the difference of ledger and documents from which on a page reports it: each rating row of a document
// is rounded.
var driftHours = decimal.New(1, -3)

// stillSays returns whether the documents have the ledger's time by bucket.
func (b *bill) stillSays(ledger hours) bool {
	billed := b.Held()
	for i := range heldBuckets {
		if ledger.by[i].Sub(billed.by[i]).Abs().GreaterThan(driftHours) {
			return false
		}
	}
	return true
}

// Money is an amount with the total's places and currency.
func (b *bill) Money(d decimal.Decimal) string { return money(d, b.Total.Places(), b.Currency) }

// exact is an amount of a line or an effect.
func (b *bill) exact(d decimal.Decimal) string { return number(d, max(exactPlaces, b.Total.Places())) }

// IdleCost is the cost of idle time in all documents: its list value or profile price, and its surcharge, before
// tiers and discounts.
func (b *bill) IdleCost() decimal.Decimal {
	cost := decimal.Zero
	for l := range b.lines() {
		switch l.Effect {
		case rating.EffectList, rating.EffectProfile, rating.EffectIdleSurcharge:
			if l.Bucket == idle {
				cost = cost.Add(l.Amount.Decimal)
			}
		}
	}
	return cost
}
