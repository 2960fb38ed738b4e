package decisions

import (
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// PriceBook publishes a price book. It is in force from this record until the next
// one; its rates have effective dates of their own.
type PriceBook struct {
	SHA256 string `json:"sha256"` // of the text
	Name   string `json:"name"`
	Text   string `json:"text"` // YAML, at most 1 MiB
}

func (b *PriceBook) check() error {
	return join(name("name", b.Name), file(b.Text, b.SHA256, 1))
}

// maxParts bounds a document at 2 GiB, and the cost of a hostile one.
const maxParts = 4096

// Document is a text that is stored in the topic in parts.
type Document struct {
	SHA256 string   `json:"sha256"` // of the whole text
	Bytes  int64    `json:"bytes"`
	Parts  []string `json:"parts"` // SHA-256 of each, in order; empty: the text is empty
}

func (d *Document) check() error {
	if n := len(d.Parts); n > maxParts {
		return fmt.Errorf("parts has %d entries, want at most %d", n, maxParts)
	}
	var errs []error
	if d.Bytes < 0 || d.Bytes > int64(len(d.Parts))*PartBytes {
		errs = append(errs, fmt.Errorf("bytes is %d, want 0 to %d for each of %d parts", d.Bytes, PartBytes, len(d.Parts)))
	}
	if d.Parts == nil {
		errs = append(errs, errors.New("parts is null, want a list"))
	}
	for i, part := range d.Parts {
		errs = append(errs, digest(fmt.Sprintf("parts[%d]", i), part))
	}
	whole := ""
	switch len(d.Parts) {
	case 0:
		whole = Digest(nil)
	case 1:
		whole = d.Parts[0]
	}
	if errs = append(errs, digest("sha256", d.SHA256)); whole != "" && d.SHA256 != whole {
		errs = append(errs, wrong("sha256", d.SHA256, "that of its only part, or of nothing, "+whole))
	}
	return errors.Join(errs...)
}

// Freeze stores what all tenants' hours had when they were closed, taken before the
// first invoice that needs them (R17): the distribution by tenant and hour, and the
// models that were supplied.
type Freeze struct {
	From      time.Time `json:"from"` // UTC hours [from, to); freezes never overlap
	To        time.Time `json:"to"`
	PriceBook string    `json:"price_book"` // SHA-256
	Copy      Document  `json:"copy"`
}

func (f *Freeze) check() error {
	return join(hours(f.From, f.To), digest("price_book", f.PriceBook), wrap("copy", f.Copy.check()))
}

// The kinds of documents.
const (
	InvoiceKind    = "invoice"
	CreditNoteKind = "credit_note" // its total is zero or less
	DebitNoteKind  = "debit_note"  // its total is above zero
)

// MaxTenantBytes is the greatest length of a tenant's name on an invoice.
const MaxTenantBytes = 400

// Invoice is a finalised document: an invoice, or a note that corrects one.
type Invoice struct {
	Number   string    `json:"number"` // Number(Period, Tenant, Revision)
	Kind     string    `json:"kind"`   // InvoiceKind, CreditNoteKind or DebitNoteKind
	Tenant   string    `json:"tenant"`
	Period   string    `json:"period"` // month, such as 2026-10
	Revision int       `json:"revision"`
	TimeZone string    `json:"time_zone"` // IANA name
	From     time.Time `json:"from"`      // the period's UTC hours [from, to)
	To       time.Time `json:"to"`
	Currency string    `json:"currency"`
	Total    string    `json:"total"` // of a note: the difference
	GPUHours string    `json:"gpu_hours"`
	// PriceBook is the SHA-256 of the book with which it was rated.
	PriceBook string `json:"price_book"`
	// Content is the canonical document, Usage the copy of the usage from which it was
	// rated.
	Content Document `json:"content"`
	Usage   Document `json:"usage"`
	// Corrects is the number of the previous revision, Before the SHA-256 of its
	// content, BilledIn the month in which the difference is billed. Notes only.
	Corrects string `json:"corrects,omitempty"`
	Before   string `json:"before,omitempty"`
	BilledIn string `json:"billed_in,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Approval is the key of the approval that it depends on; empty: it needed none.
	Approval string `json:"approval,omitempty"`
	// Epoch and Inputs are those of the ledger at the time of finalisation.
	Epoch  uint32 `json:"epoch"`
	Inputs uint64 `json:"inputs"`
}

// Number is an invoice's number: 2026-10-ml-train-r0.
func Number(period, tenant string, revision int) string {
	return period + "-" + tenant + "-r" + strconv.Itoa(revision)
}

func (i *Invoice) check() error {
	errs := []error{
		oneOf("kind", i.Kind, InvoiceKind, CreditNoteKind, DebitNoteKind),
		month("period", i.Period), hours(i.From, i.To), name("time_zone", i.TimeZone), digest("price_book", i.PriceBook),
		wrap("content", i.Content.check()), wrap("usage", i.Usage.check()),
		text("reason", i.Reason),
	}
	// Names of tenants come from unchecked facts: any text is allowed.
	if n := len(i.Tenant); n < 1 || n > MaxTenantBytes || !utf8.ValidString(i.Tenant) {
		errs = append(errs, wrong("tenant", i.Tenant, fmt.Sprintf("1 to %d bytes of UTF-8", MaxTenantBytes)))
	}
	if want := Number(i.Period, i.Tenant, i.Revision); i.Number != want {
		errs = append(errs, wrong("number", i.Number, shown(want)))
	}
	if !currencyCode.MatchString(i.Currency) {
		errs = append(errs, wrong("currency", i.Currency, "an ISO 4217 code"))
	}
	if i.Content.Bytes == 0 {
		errs = append(errs, errors.New("content: bytes is 0: the document is empty"))
	}
	if i.Approval != "" {
		errs = append(errs, name("approval", i.Approval))
	}
	sign, err := amount("total", i.Total)
	_, errGPU := amount("gpu_hours", i.GPUHours)
	return wrap("document", append(errs, err, errGPU, i.checkKind(sign))...)
}

// checkKind checks the fields that only an invoice, or only a note, has.
func (i *Invoice) checkKind(sign int) error {
	if i.Kind == InvoiceKind {
		if i.Revision != 0 {
			return fmt.Errorf("revision is %d, want 0", i.Revision)
		}
		return errors.Join(oneOf("corrects", i.Corrects, ""), oneOf("before", i.Before, ""),
			oneOf("billed_in", i.BilledIn, ""), oneOf("reason", i.Reason, ""))
	}
	var errs []error
	if i.Revision < 1 {
		errs = append(errs, fmt.Errorf("revision is %d, want 1 or more", i.Revision))
	}
	if credit := sign <= 0; credit != (i.Kind == CreditNoteKind) {
		errs = append(errs, wrong("kind", i.Kind, "credit_note for a total of zero or less, else debit_note"))
	}
	if i.Reason == "" {
		errs = append(errs, errors.New("reason is empty: give the reason of the correction"))
	}
	if err := month("billed_in", i.BilledIn); err != nil {
		errs = append(errs, err)
	} else if i.BilledIn < i.Period {
		errs = append(errs, wrong("billed_in", i.BilledIn, "a month not before "+i.Period))
	}
	return errors.Join(append(errs, digest("before", i.Before))...)
}

// Approval is one person's consent to what another person is about to finalise.
type Approval struct {
	Subject string `json:"subject"` // an invoice's or note's number, or Policy.Subject
	Content string `json:"content"` // SHA-256 of the approved document
	Comment string `json:"comment"`
	// Total, in Currency, is the document's; approvals of the first builds have
	// neither.
	Total    string `json:"total,omitempty"`
	Currency string `json:"currency,omitempty"`
}

func (a *Approval) check() error {
	var errs []error
	if n := len(a.Subject); n < 1 || n > maxText || !utf8.ValidString(a.Subject) {
		errs = append(errs, wrong("subject", a.Subject, "the number of an invoice"))
	}
	if a.Total != "" || a.Currency != "" {
		_, err := amount("total", a.Total)
		if errs = append(errs, err); !currencyCode.MatchString(a.Currency) {
			errs = append(errs, wrong("currency", a.Currency, "an ISO 4217 code"))
		}
	}
	return join(append(errs, digest("content", a.Content), text("comment", a.Comment))...)
}

// Mapping notes that tenants.yaml was changed. An empty text is the default
// mapping: the owners' own names.
type Mapping struct {
	Epoch     uint32    `json:"epoch"`
	SHA256    string    `json:"sha256"` // of the text
	Text      string    `json:"text"`
	Effective time.Time `json:"effective"` // the first hour that it applies to, UTC
}

func (m *Mapping) check() error {
	return join(file(m.Text, m.SHA256, 0), instant("effective", m.Effective))
}

// Audit records an action or observation that is no decision of another kind.
type Audit struct {
	Action  string `json:"action"`
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
}

func (a *Audit) check() error {
	return join(name("action", a.Action), text("subject", a.Subject), text("detail", a.Detail))
}
