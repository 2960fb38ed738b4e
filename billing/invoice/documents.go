package invoice

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/decisions"
)

// fillIn puts decided documents in the place of drafts.
func (r *Register) fillIn(ctx context.Context, state decidedState, month *Month) error {
	var decided []Invoice
	tenants := map[string]bool{}
	for _, chain := range state.chains(month.Period) {
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

// content is a document's bytes; the log has checked their hash.
func (r *Register) content(ctx context.Context, record decisions.Invoice) ([]byte, error) {
	content, err := r.deps.Decisions.Read(ctx, record.Content)
	if err != nil {
		return nil, fmt.Errorf("read invoice %s: %w", record.Number, err)
	}
	return content, nil
}

// usage is the copy of the usage that an invoice or note follows from.
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

// finalised is the document of what was rated, as it will never change again.
func finalised(b *prices.Book, period rating.Period, rated *rating.Invoice) Invoice {
	document := newInvoice(b, period, rated)
	document.Status = StatusFinalised
	return document
}

// note is the document of a difference; before is the last revision.
func note(b *prices.Book, period rating.Period, difference *rating.Invoice, before decisions.Invoice, reason string) Invoice {
	document := finalised(b, period, difference)
	document.Revision = before.Revision + 1
	document.Number = Number(before.Period, before.Tenant, document.Revision)
	document.Kind = KindDebitNote
	if !difference.Total.IsPositive() {
		document.Kind = KindCreditNote
	}
	document.Corrects, document.Reason = before.Number, reason
	return document
}

// name sets a draft's Content: the hash of the document it would be.
func (document *Invoice) name() error {
	final := *document
	final.Status = StatusFinalised
	content, err := Canonical(&final)
	document.Content = decisions.Digest(content)
	return err
}

// record is the decision that makes a document of these bytes stand.
func (document *Invoice) record(content, usage []byte) (decisions.Invoice, error) {
	record := decisions.Invoice{
		Number: document.Number, Kind: document.Kind, Tenant: document.Tenant, Period: document.Period, Revision: document.Revision,
		TimeZone: document.TimeZone, From: document.From, To: document.To, Currency: document.Currency, Total: document.Total.String(), GPUHours: document.GPUHours.String(),
		PriceBook: document.PriceHash, Corrects: document.Corrects, Reason: document.Reason,
		Usage: decisions.NewDocument(usage), Content: decisions.NewDocument(content),
	}
	if record.Usage.SHA256 != document.UsageHash {
		return record, fmt.Errorf("keep usage copy of %s: its hash is %s, the invoice says %s", document.Number, record.Usage.SHA256, document.UsageHash)
	}
	return record, nil
}

// Statuses of a document: a draft is recomputed each time it is asked for, a
// finalised one never changes.
const (
	StatusDraft     = "draft"
	StatusFinalised = "finalised"
)

// Kinds of documents. A note corrects an invoice, by what it comes to now
// beyond what it and its earlier notes came to: a credit note by nothing or
// less, a debit note by more (R20).
const (
	KindInvoice    = decisions.InvoiceKind
	KindCreditNote = decisions.CreditNoteKind
	KindDebitNote  = decisions.DebitNoteKind
)

// hourPlaces is the precision of hours on documents (R8).
const hourPlaces = 9

// Invoice is the document of one tenant and month. Amounts are exact decimals
// without trailing zeros; the total has the currency's places, hours have 9.
// It says nothing of when it was made: the same usage gives the same bytes.
type Invoice struct {
	Tenant   string         `json:"tenant"`
	Period   string         `json:"period"`
	Currency string         `json:"currency"`
	GPUHours Money          `json:"gpu_hours"`
	Effects  rating.Effects `json:"effects"`
	Total    Money          `json:"total"`
	Number   string         `json:"number"`
	Revision int            `json:"revision"`
	Status   string         `json:"status"`
	Kind     string         `json:"kind"`
	// Corrects is the number of the revision before a note, Reason why there is
	// one; both are empty on invoices.
	Corrects string `json:"corrects,omitempty"`
	Reason   string `json:"reason,omitempty"`
	TimeZone string `json:"time_zone"`
	// From (inclusive) and To (exclusive) are the month's UTC hours.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Buckets are the tenant's GPU-hours; together they are GPUHours.
	Buckets   HeldHours `json:"buckets"`
	UsageHash string    `json:"usage_sha256"`
	PriceHash string    `json:"price_book_sha256"`
	Lines     []Line    `json:"lines"`
	// Content is the SHA-256, in hex, of the document's bytes; a draft's is that
	// of the document it would be if it were finalised now.
	Content string `json:"-"`
	// Quarantined says which hours of the tenant are left out of a draft, for
	// they can't be billed, and what to do; such a draft can't be finalised.
	Quarantined string `json:"quarantined,omitempty"`
	// Withheld is ReasonQuarantined or ReasonNoRate where Quarantined says something.
	Withheld Reason `json:"-"`
}

// HeldHours are a tenant's GPU-hours by bucket.
type HeldHours struct {
	Active   Money `json:"active"`
	Idle     Money `json:"idle"`
	Unproven Money `json:"unproven"`
}

// Line explains a part of an effect.
type Line = rating.Line

// Money is a figure of a document.
type Money = rating.Money

// Platform is the platform's own account, by the book's zone. List values obey
// C7b: tenants + platform + quantity rounding = capacity.
type Platform struct {
	GPUHours             Money  `json:"gpu_hours"`
	List                 Money  `json:"list"`
	QuantityRounding     Money  `json:"quantity_rounding"`
	Distribution         Money  `json:"distribution"`
	EnergyMJ             Money  `json:"energy_mj"`
	UnattributedEnergyMJ Money  `json:"unattributed_energy_mj"`
	TenantsList          Money  `json:"tenants_list"`
	CapacityList         Money  `json:"capacity_list"`
	Lines                []Line `json:"lines"`
	// Quarantined says which hours are left out of this account.
	Quarantined string `json:"quarantined,omitempty"`
	// Withheld is as an invoice's.
	Withheld Reason `json:"-"`
}

// Number is an invoice's, from period, tenant and revision: "2026-10-ml-train-r0".
func Number(period, tenant string, revision int) string {
	return period + "-" + tenant + "-r" + strconv.Itoa(revision)
}

// Canonical is the document as JSON: keys in their fixed order, no HTML
// escapes, one space of indentation, a newline at the end (C8).
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

func newInvoice(book *prices.Book, period rating.Period, rated *rating.Invoice) Invoice {
	zone := book.Location(rated.Tenant)
	from, to := bounds(period, zone)
	held := map[string]decimal.Decimal{}
	for _, line := range rated.Lines {
		if line.Effect == rating.EffectList {
			held[line.Bucket] = held[line.Bucket].Add(line.Quantity.Decimal)
		}
	}
	hours := func(bucket string) Money { return rating.Fixed(held[bucket], hourPlaces) }
	lines := rated.Lines
	if lines == nil {
		lines = []Line{} // which JSON tells from null
	}
	return Invoice{
		Tenant: rated.Tenant, Period: rated.Period, Currency: rated.Currency,
		GPUHours: rating.Fixed(rated.GPUHours, hourPlaces), Effects: rated.Effects, Total: rating.Fixed(rated.Total, book.MinorUnit),
		Number: Number(rated.Period, rated.Tenant, 0), Status: StatusDraft, Kind: KindInvoice, TimeZone: zone.String(), From: from, To: to,
		Buckets:   HeldHours{Active: hours("active"), Idle: hours("idle"), Unproven: hours("unproven")},
		UsageHash: rated.UsageHash, PriceHash: book.Hash, Lines: lines,
	}
}

func newPlatform(rated *rating.Platform, value *rating.ListValue, unattributedMJ decimal.Decimal) Platform {
	return Platform{
		GPUHours: rating.Fixed(rated.GPUHours, hourPlaces), List: rating.Exact(rated.List),
		QuantityRounding: rating.Exact(rated.QuantityRounding), Distribution: rating.Exact(rated.Distribution),
		EnergyMJ: rating.Exact(rated.EnergyMJ), UnattributedEnergyMJ: rating.Exact(unattributedMJ),
		TenantsList: rating.Exact(value.Tenants), CapacityList: rating.Exact(value.Capacity()), Lines: rated.Lines,
	}
}
