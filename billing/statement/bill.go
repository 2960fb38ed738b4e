package statement

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/rating"
)

// bill is a statement's documents, the invoice or draft first, with their
// figures read.
type bill struct {
	documents []invoice.Invoice
	totals    []decimal.Decimal // of documents
	hours     []decimal.Decimal // of documents
	lines     [][]line          // of documents
	currency  string
	places    int32 // of totals
	zone      *time.Location
	from, to  time.Time
}

// line is a document's with its figures read.
type line struct {
	invoice.Line
	quantity, unitPrice, amount decimal.Decimal
}

func newBill(documents []invoice.Invoice) (*bill, error) {
	if len(documents) == 0 {
		return nil, errors.New("read documents: there is none")
	}
	b := &bill{documents: documents, currency: documents[0].Currency}
	var err error
	if b.zone, err = time.LoadLocation(documents[0].TimeZone); err != nil {
		return nil, fmt.Errorf("read document %q: %w", documents[0].Number, err)
	}
	if b.from, err = time.Parse(time.RFC3339, documents[0].From); err != nil {
		return nil, fmt.Errorf("read start of document %q: %w", documents[0].Number, err)
	}
	if b.to, err = time.Parse(time.RFC3339, documents[0].To); err != nil {
		return nil, fmt.Errorf("read end of document %q: %w", documents[0].Number, err)
	}
	for _, document := range documents {
		if err := b.read(document); err != nil {
			return nil, fmt.Errorf("read document %q: %w", document.Number, err)
		}
	}
	b.places = max(0, -b.totals[0].Exponent())
	return b, nil
}

func (b *bill) read(document invoice.Invoice) error {
	total, err := decimal.NewFromString(document.Total)
	if err != nil {
		return fmt.Errorf("total: %w", err)
	}
	hours, err := decimal.NewFromString(document.GPUHours)
	if err != nil {
		return fmt.Errorf("gpu_hours: %w", err)
	}
	lines, err := readLines(document.Lines)
	b.totals, b.hours, b.lines = append(b.totals, total), append(b.hours, hours), append(b.lines, lines)
	return err
}

func readLines(from []invoice.Line) ([]line, error) {
	lines := make([]line, len(from))
	for i, l := range from {
		lines[i].Line = l
		for _, figure := range []struct {
			to   *decimal.Decimal
			name string
			text string
		}{{&lines[i].amount, "amount", l.Amount}, {&lines[i].quantity, "quantity", l.Quantity}, {&lines[i].unitPrice, "unit_price", l.UnitPrice}} {
			if figure.text == "" && figure.name != "amount" {
				continue
			}
			read, err := decimal.NewFromString(figure.text)
			if err != nil {
				return nil, fmt.Errorf("line %d: %s: %w", i, figure.name, err)
			}
			*figure.to = read
		}
	}
	return lines, nil
}

func (b *bill) draft() bool { return b.documents[0].Status == invoice.StatusDraft }

// name is what the first document's total is called.
func (b *bill) name() string {
	if b.draft() {
		return "Draft total"
	}
	return "Invoice total"
}

func (b *bill) total() decimal.Decimal { return b.totals[0] }

// net is the invoice with all its notes.
func (b *bill) net() decimal.Decimal { return sum(b.totals) }

// gpuHours are the invoice's, as its notes left them.
func (b *bill) gpuHours() decimal.Decimal { return sum(b.hours) }

// held are the GPU-hours by bucket, as the list lines of all documents have them.
func (b *bill) held() (h hours) {
	for _, l := range slices.Concat(b.lines...) {
		if l.Effect != rating.EffectList {
			continue
		}
		for i := range heldBuckets {
			if heldBuckets[i].Name == l.Bucket {
				h.by[i] = h.by[i].Add(l.quantity)
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

func sum(amounts []decimal.Decimal) decimal.Decimal {
	total := decimal.Zero
	for _, amount := range amounts {
		total = total.Add(amount)
	}
	return total
}

func (b *bill) money(d decimal.Decimal) string { return money(d, b.places, b.currency) }

// exact is an amount of a line or an effect.
func (b *bill) exact(d decimal.Decimal) string { return number(d, b.exactPlaces()) }

func (b *bill) exactPlaces() int32 { return max(exactPlaces, b.places) }

// idleCost is what idle time costs by all documents: its list value or profile
// price, and its surcharge, before tiers and discounts.
func (b *bill) idleCost() decimal.Decimal {
	cost := decimal.Zero
	for _, lines := range b.lines {
		for _, l := range lines {
			switch l.Effect {
			case rating.EffectList, rating.EffectProfile, rating.EffectIdleSurcharge:
				if l.Bucket == idle.Name {
					cost = cost.Add(l.amount)
				}
			}
		}
	}
	return cost
}
