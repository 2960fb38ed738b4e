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

// bill is a statement's documents, the invoice or draft first.
type bill struct {
	documents []invoice.Invoice
	currency  string
	places    int32 // of totals
	zone      *time.Location
	from, to  time.Time
}

func newBill(documents []invoice.Invoice) (*bill, error) {
	if len(documents) == 0 {
		return nil, errors.New("read documents: there is none")
	}
	first := &documents[0]
	zone, err := time.LoadLocation(first.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("read document %q: %w", first.Number, err)
	}
	return &bill{
		documents: documents, currency: first.Currency, places: first.Total.Places(), zone: zone, from: first.From,
		to: first.To,
	}, nil
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

func (b *bill) draft() bool { return b.documents[0].Status == invoice.StatusDraft }

// name is what the first document's total is called.
func (b *bill) name() string {
	if b.draft() {
		return "Draft total"
	}
	return "Invoice total"
}

func (b *bill) total() decimal.Decimal { return b.documents[0].Total.Decimal }

// net is the invoice with all its notes.
func (b *bill) net() decimal.Decimal {
	return b.sum(func(of *invoice.Invoice) decimal.Decimal { return of.Total.Decimal })
}

// gpuHours are the invoice's, as its notes left them.
func (b *bill) gpuHours() decimal.Decimal {
	return b.sum(func(of *invoice.Invoice) decimal.Decimal { return of.GPUHours.Decimal })
}

func (b *bill) sum(figure func(*invoice.Invoice) decimal.Decimal) decimal.Decimal {
	total := decimal.Zero
	for i := range b.documents {
		total = total.Add(figure(&b.documents[i]))
	}
	return total
}

// held are the GPU-hours by bucket, as the list lines of all documents have them.
func (b *bill) held() (h hours) {
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

// driftHours is how far ledger and documents may be apart before a page says
// so: each rating row of a document is rounded.
var driftHours = decimal.New(1, -3)

// stillSays tells whether the documents have the ledger's time by bucket.
func (b *bill) stillSays(ledger hours) bool {
	billed := b.held()
	for _, bucket := range heldBuckets {
		if ledger.of(bucket).Sub(billed.of(bucket)).Abs().GreaterThan(driftHours) {
			return false
		}
	}
	return true
}

func (b *bill) money(d decimal.Decimal) string { return money(d, b.places, b.currency) }

// exact is an amount of a line or an effect.
func (b *bill) exact(d decimal.Decimal) string { return number(d, b.exactPlaces()) }

func (b *bill) exactPlaces() int32 { return max(exactPlaces, b.places) }

// idleCost is what idle time costs by all documents: its list value or profile
// price, and its surcharge, before tiers and discounts.
func (b *bill) idleCost() decimal.Decimal {
	cost := decimal.Zero
	for l := range b.lines() {
		switch l.Effect {
		case rating.EffectList, rating.EffectProfile, rating.EffectIdleSurcharge:
			if l.Bucket == idle.Name {
				cost = cost.Add(l.Amount.Decimal)
			}
		}
	}
	return cost
}
