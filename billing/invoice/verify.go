package invoice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/decisions"
)

// Verdict is the result of recomputing a decided invoice or note.
type Verdict struct {
	Number string `json:"number"`
	Total  string `json:"total"`
	// Content and Usage are the hashes of the document and of its usage copy.
	Content string `json:"content_sha256"`
	Usage   string `json:"usage_sha256"`
	// Same: the copy, rated again by its book, gives the document byte for byte (C8).
	Same bool `json:"same"`
	// Wrong describes the difference.
	Wrong string `json:"wrong,omitempty"`
	// Pending: the ledger's usage has changed since.
	Pending bool `json:"pending_adjustment"`
}

// Verify rates a decided document's own copy of usage by its own book and compares the bytes. A difference is in the
// verdict, not an error.
func (r *Register) Verify(ctx context.Context, number string) (*Verdict, error) {
	if err := r.refresh(ctx); err != nil {
		return nil, err
	}
	record, ok := r.invoice(number)
	if !ok {
		return nil, fmt.Errorf("verify invoice %q: %w", number, ErrNotFound)
	}
	verdict, err := r.verify(ctx, record)
	if err != nil {
		return nil, fmt.Errorf("verify invoice %s: %w", number, err)
	}
	chain := r.chain(record.Tenant, record.Period)
	pending, err := r.adjustments(ctx, record.Period, [][]decisions.Invoice{chain})
	if err != nil {
		return nil, fmt.Errorf("compare invoice %s with the ledger: %w", number, err)
	}
	verdict.Pending = len(pending) > 0
	return verdict, nil
}

// verify recomputes one document.
func (r *Register) verify(ctx context.Context, record decisions.Invoice) (*Verdict, error) {
	verdict := &Verdict{
		Number: record.Number, Total: record.Total, Content: record.Content.SHA256, Usage: record.Usage.SHA256,
	}
	content, err := r.content(ctx, record)
	if err != nil {
		return nil, err
	}
	from, err := r.source(ctx, record)
	if err != nil {
		return nil, err
	}
	document, err := r.rateAgain(ctx, record, from)
	var unrated *unratedError
	if errors.As(err, &unrated) {
		verdict.Wrong = unrated.Error()
		return verdict, nil
	}
	if err != nil {
		return nil, err
	}
	if record.Revision == 0 {
		document = finalised(document)
	} else {
		before, _ := r.invoice(record.Corrects)
		document = note(document, before, record.Reason)
	}
	again, err := Canonical(document)
	if err != nil {
		return nil, err
	}
	if verdict.Same = bytes.Equal(content, again); !verdict.Same {
		verdict.Wrong = firstDifference(content, again)
	}
	if wrong := contradiction(&record, document); wrong != "" {
		verdict.Same, verdict.Wrong = false, wrong
	}
	return verdict, nil
}

// contradiction describes where a decision differs from the document that follows from its usage: exports,
// projections and coverage read the decision.
func contradiction(record *decisions.Invoice, document *Invoice) string {
	for _, c := range []struct{ field, says, comesTo string }{
		{"total", record.Total, document.Total.String()},
		{"kind", record.Kind, document.Kind},
		{"gpu_hours", record.GPUHours, document.GPUHours.String()},
		{"currency", record.Currency, document.Currency},
		{"time_zone", record.TimeZone, document.TimeZone},
		{"from", record.From.Format(time.RFC3339), document.From.Format(time.RFC3339)},
		{"to", record.To.Format(time.RFC3339), document.To.Format(time.RFC3339)},
		{"usage", record.Usage.SHA256, document.UsageHash},
	} {
		if c.says != c.comesTo {
			return fmt.Sprintf("the decision has %s %s, its usage gives %s", c.field, c.says, c.comesTo)
		}
	}
	return ""
}

// source is what a document of a tenant and month follows from.
type source struct {
	tenant string
	month  rating.Period
	book   *prices.Book
	usage  []byte // the copy
}

// source is what a decided document follows from: its own copy, by its own book.
func (r *Register) source(ctx context.Context, record decisions.Invoice) (from source, err error) {
	from.tenant = record.Tenant
	if from.month, err = rating.ParsePeriod(record.Period); err != nil {
		return from, err
	}
	if from.book, err = r.book(record.PriceBook); err != nil {
		return from, err
	}
	from.usage, err = r.usage(ctx, record)
	return from, err
}

// rate rates the copy; observe may be nil.
func (s source) rate(observe func(rating.Charge)) (*Invoice, error) {
	return rating.RateCopy(s.book, s.month, s.tenant, bytes.NewReader(s.usage), observe)
}

// less returns the difference of the copy to an earlier one.
func (s source) less(earlier []byte) (*Invoice, error) {
	now, err := s.rate(nil)
	if err != nil {
		return nil, err
	}
	s.usage = earlier
	then, err := s.rate(nil)
	if err != nil {
		return nil, err
	}
	difference := rating.Difference(now, then)
	return &difference, nil
}

// rateAgain rates a decided document's own usage; a note's less that of the
// revision before. The error is an *unratedError where a copy can't be rated.
func (r *Register) rateAgain(ctx context.Context, record decisions.Invoice, from source) (rated *Invoice, err error) {
	if record.Revision == 0 {
		rated, err = from.rate(nil)
	} else {
		before, ok := r.invoice(record.Corrects)
		if !ok {
			return nil, fmt.Errorf("the note corrects %s, which is not among the decisions", record.Corrects)
		}
		earlier, failed := r.usage(ctx, before)
		if failed != nil {
			return nil, failed
		}
		rated, err = from.less(earlier)
	}
	if err != nil {
		return nil, &unratedError{err}
	}
	return rated, nil
}

// unratedError means that a usage copy can't be rated: its document follows from nothing.
type unratedError struct{ error }

// firstDifference describes the first line in which two documents differ.
func firstDifference(stands, again []byte) string {
	old, now := bytes.Split(stands, []byte("\n")), bytes.Split(again, []byte("\n"))
	for i := range old {
		if i >= len(now) || !bytes.Equal(old[i], now[i]) {
			other := "nothing"
			if i < len(now) {
				other = string(bytes.TrimSpace(now[i]))
			}
			return fmt.Sprintf("line %d: %s; its usage gives %s", i+1, bytes.TrimSpace(old[i]), other)
		}
	}
	return fmt.Sprintf("its usage gives %d more lines", len(now)-len(old))
}

// Bill is a decided document with its charges, for exports.
type Bill struct {
	Record decisions.Invoice
	Book   *prices.Book
	// Charges observes the charges that sum to the document's total: for a note those of its usage, then those of the
	// revision before with the opposite sign.
	Charges func(observe func(rating.Charge)) error
}

// Bills returns the invoices of a month and the notes that are billed in it.
func (r *Register) Bills(ctx context.Context, period string) ([]Bill, error) {
	if err := r.refresh(ctx); err != nil {
		return nil, err
	}
	var bills []Bill
	for _, record := range r.all() {
		if record.BilledIn != period && (record.Revision > 0 || record.Period != period) {
			continue
		}
		b, err := r.book(record.PriceBook)
		if err != nil {
			return nil, err
		}
		bills = append(bills, Bill{Record: record, Book: b, Charges: func(observe func(rating.Charge)) error {
			if err := r.charges(ctx, record, observe); err != nil {
				return fmt.Errorf("read charges of %s: %w", record.Number, err)
			}
			return nil
		}})
	}
	return bills, nil
}

func (r *Register) charges(ctx context.Context, record decisions.Invoice, observe func(rating.Charge)) error {
	from, err := r.source(ctx, record)
	if err == nil {
		_, err = from.rate(observe)
	}
	if err != nil || record.Revision == 0 {
		return err
	}
	before, ok := r.invoice(record.Corrects)
	if !ok {
		return fmt.Errorf("the note corrects %s, which is not among the decisions", record.Corrects)
	}
	if from.usage, err = r.usage(ctx, before); err != nil {
		return err
	}
	_, err = from.rate(func(c rating.Charge) { observe(c.Negated()) })
	return err
}
