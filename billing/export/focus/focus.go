package focus

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
)

// The supported versions of FOCUS.
const (
	Version12 = "1.2"
	Version14 = "1.4"
)

// Kinds of bills.
const (
	KindDraft      = "draft"
	KindInvoice    = invoice.KindInvoice
	KindCreditNote = invoice.KindCreditNote
	KindDebitNote  = invoice.KindDebitNote
	// KindPlatform is the platform's account, which nobody is billed for.
	KindPlatform = "platform"
)

// Bill is one document and its basis.
type Bill struct {
	// Number is the invoice's or note's; empty: a draft, or the platform's.
	Number string
	Kind   string
	// Tenant is empty for the platform.
	Tenant string
	// Period is the charged month, such as "2026-10"; BilledIn that of a note.
	Period, BilledIn string
	TimeZone         string
	// From (inclusive) and To (exclusive) bound the tenant's month.
	From, To time.Time
	Currency string
	// Total is what the rows' BilledCost must sum to.
	Total decimal.Decimal
	// Book is the price book of the charges.
	Book *prices.Book
	// UsageHash is the SHA-256 of the usage billed, in hex; may be empty.
	UsageHash string
	// QuantityRounding is the platform's: the list value of rounding quantities (C7b).
	QuantityRounding decimal.Decimal
	// Charges are handed over in any order. A
	// note's are the new ones, and the earlier ones negated.
	Charges func(yield func(rating.Charge)) error

	gathered *gathering // instead of Charges, where they came in before
}

// billedIn is the month of the billing period.
func (b *Bill) billedIn() string { return cmp.Or(b.BilledIn, b.Period) }

// correction returns whether the bill changes an earlier one.
func (b *Bill) correction() bool { return b.Kind == KindCreditNote || b.Kind == KindDebitNote }

// Options are the options of a file.
type Options struct {
	// Version of FOCUS: "1.2" (default) or "1.4".
	Version string
	// Validator writes what the published validator, which supports only 1.2, can read: text is ASCII, other
	// characters as \uXXXX, with columns that its checks read against their conditions. Amounts are the same.
	Validator bool
	// Config has the issuer's names.
	Config
}

// Validate returns an error for an unsupported version or an invalid name.
func (o Options) Validate() error {
	_, err := o.withDefaults()
	return err
}

func (o Options) withDefaults() (Options, error) {
	o.Version = cmp.Or(o.Version, Version12)
	if o.Version != Version12 && o.Version != Version14 {
		return o, fmt.Errorf("FOCUS version %q: want %s or %s", o.Version, Version12, Version14)
	}
	if o.Validator && o.Version != Version12 {
		return o, fmt.Errorf("FOCUS version %s: the published validator knows %s", o.Version, Version12)
	}
	if err := o.Config.Validate(); err != nil {
		return o, err
	}
	o.Config = o.Config.withDefaults()
	return o, nil
}

// Summary describes a written file.
type Summary struct {
	Rows int
	// Billed is the sum of BilledCost by invoice number.
	Billed map[string]decimal.Decimal
	// WholeGPUListCost is the sum of that column.
	WholeGPUListCost decimal.Decimal
	// Columns are the file's columns, in order.
	Columns []ColumnDefinition
}

// Write writes bills, one in memory at a time. Errors: an invalid option, a bill that doesn't sum or is of another
// billing period, and those of the iterator or the writer; after an error discard the output.
func Write(w io.Writer, options Options, bills iter.Seq2[Bill, error]) (Summary, error) {
	return write(w, "", options, bills)
}

// write writes bills of a month; empty: of the first bill's.
func write(w io.Writer, period string, options Options, bills iter.Seq2[Bill, error]) (Summary, error) {
	options, err := options.withDefaults()
	if err != nil {
		return Summary{}, fmt.Errorf("write FOCUS: %w", err)
	}
	out := &writer{
		to: bufio.NewWriter(w), options: options, columns: columnsOf(options), period: period,
		summary: Summary{Billed: map[string]decimal.Decimal{}},
	}
	out.header()
	for bill, err := range bills {
		if err == nil {
			err = out.bill(&bill)
		}
		if err != nil {
			return Summary{}, fmt.Errorf("write FOCUS: %w", err)
		}
	}
	if err := out.to.Flush(); err != nil {
		return Summary{}, fmt.Errorf("write FOCUS: %w", err)
	}
	out.summary.Columns = out.definitions()
	return out.summary, nil
}

// writer is one file.
type writer struct {
	to      *bufio.Writer
	options Options
	columns []column
	stats   []extent // by column
	period  string   // the billing period's month
	summary Summary
}

// bill writes one bill's rows, after checking that they sum to its total.
func (w *writer) bill(b *Bill) error {
	of := fmt.Sprintf("%s of tenant %q in %s", cmp.Or(b.Number, b.Kind), b.Tenant, b.Period)
	if w.period == "" {
		w.period = b.billedIn()
	}
	if w.period != b.billedIn() {
		return fmt.Errorf("%s: billed in %s, the file is of %s", of, b.billedIn(), w.period)
	}
	if _, twice := w.summary.Billed[b.Number]; twice && b.Number != "" {
		return fmt.Errorf("%s: its number occurs twice", of)
	}
	period, err := rating.ParsePeriod(b.billedIn())
	if err != nil {
		return fmt.Errorf("%s: %w", of, err)
	}
	rows, err := gatherRows(b)
	if err != nil {
		return fmt.Errorf("%s: %w", of, err)
	}
	p := page{bill: b, options: &w.options}
	p.periodStart, p.periodEnd = period.Bounds(b.Book.Zone)
	for _, r := range rows {
		p.row = r
		w.record(&p)
		w.summary.WholeGPUListCost = w.summary.WholeGPUListCost.Add(r.wholeList)
	}
	if b.Number != "" {
		w.summary.Billed[b.Number] = b.Total
	}
	w.summary.Rows += len(rows)
	return nil
}

// page is a row with its bill and prices.
type page struct {
	*row
	bill                   *Bill
	options                *Options
	periodStart, periodEnd time.Time
}
