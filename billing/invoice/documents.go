package invoice

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/decisions"
)

// fillIn puts decided documents in the place of drafts.
func (r *Register) fillIn(ctx context.Context, month *Month) error {
	var decided []Invoice
	tenants := map[string]bool{}
	for _, chain := range r.chains(month.Period) {
		documents, err := r.documents(ctx, chain)
		if err != nil {
			return err
		}
		tenants[documents[0].Tenant] = true
		decided = append(decided, documents...)
	}
	drafts := slices.DeleteFunc(month.Invoices, func(i Invoice) bool { return tenants[i.Tenant] })
	month.Invoices = append(drafts, decided...)
	slices.SortStableFunc(month.Invoices, func(a, b Invoice) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Revision, b.Revision))
	})
	return nil
}

func (r *Register) documents(ctx context.Context, chain []decisions.Invoice) ([]Invoice, error) {
	documents := make([]Invoice, len(chain))
	for i, record := range chain {
		content, err := r.content(ctx, record)
		if err != nil {
			return nil, err
		}
		if documents[i], err = parseDocument(content); err != nil {
			return nil, fmt.Errorf("read invoice %s: %w", record.Number, err)
		}
		documents[i].Content = record.Content.SHA256
	}
	return documents, nil
}

// content returns a document's bytes; the log has checked their hash.
func (r *Register) content(ctx context.Context, record decisions.Invoice) ([]byte, error) {
	content, err := r.deps.Decisions.Read(ctx, record.Content)
	if err != nil {
		return nil, fmt.Errorf("read invoice %s: %w", record.Number, err)
	}
	return content, nil
}

// usage returns the copy of the usage from which an invoice or note follows.
func (r *Register) usage(ctx context.Context, record decisions.Invoice) ([]byte, error) {
	usage, err := r.deps.Decisions.Read(ctx, record.Usage)
	if err != nil {
		return nil, fmt.Errorf("read usage copy of %s: %w", record.Number, err)
	}
	return usage, nil
}

func parseDocument(content []byte) (document Invoice, err error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&document)
	return document, err
}

// asDraft makes a rated document the first draft of a tenant's month.
func asDraft(rated *Invoice) *Invoice {
	rated.Number, rated.Status, rated.Kind = decisions.Number(rated.Period, rated.Tenant, 0), StatusDraft, KindInvoice
	return rated
}

// finalised makes a rated document a finalised one.
func finalised(rated *Invoice) *Invoice {
	asDraft(rated).Status = StatusFinalised
	return rated
}

// setContent sets a draft's Content: the hash of the document that it would be.
func setContent(document *Invoice) error {
	final := *document
	final.Status = StatusFinalised
	content, err := Canonical(&final)
	document.Content = decisions.Digest(content)
	return err
}

// recordOf returns the decision on a document with these bytes.
func recordOf(document *Invoice, content, usage []byte) (decisions.Invoice, error) {
	record := decisions.Invoice{
		Number: document.Number, Kind: document.Kind, Tenant: document.Tenant, Period: document.Period,
		Revision: document.Revision,
		TimeZone: document.TimeZone, From: document.From, To: document.To, Currency: document.Currency,
		Total: document.Total.String(), GPUHours: document.GPUHours.String(), PriceBook: document.PriceHash,
		Corrects: document.Corrects, Reason: document.Reason,
		Usage: decisions.NewDocument(usage), Content: decisions.NewDocument(content),
	}
	if record.Usage.SHA256 != document.UsageHash {
		return record, fmt.Errorf("store usage copy of %s: its hash is %s, the invoice has %s", document.Number,
			record.Usage.SHA256, document.UsageHash)
	}
	return record, nil
}

// Statuses of a document: a draft is recomputed at each request, a finalised one never changes.
const (
	StatusDraft     = "draft"
	StatusFinalised = "finalised"
)

// Kinds of documents. A note corrects an invoice by the difference to its and its earlier notes' total: a credit note
// by nothing or less, a debit note by more (R20).
const (
	KindInvoice    = decisions.InvoiceKind
	KindCreditNote = decisions.CreditNoteKind
	KindDebitNote  = decisions.DebitNoteKind
)

// Types of package rating for documents.
type (
	// Invoice is the document of one tenant and month.
	Invoice = rating.Invoice
	// Platform is the platform's own account.
	Platform = rating.Platform
	// Line explains a part of an effect.
	Line = rating.Line
	// Money is a figure of a document.
	Money = rating.Money
)

// Canonical encodes the document as JSON: keys in their fixed order, no HTML escapes, one space of indentation, a
// newline at the end (C8).
func Canonical(document any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(document); err != nil {
		return nil, fmt.Errorf("encode document: %w", err)
	}
	return out.Bytes(), nil
}
