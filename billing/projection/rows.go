package projection

import (
	"context"
	"fmt"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/tables"
)

const (
	tableDecisions = "decisions"
	tableInvoices  = "invoices"
	tableUsage     = "invoice_usage"
)

// Rows of the tables. An invoice's amounts are decimals in their shortest form, which ClickHouse reads, and writes by
// toString, exactly; its document is compared by its SHA-256.
type (
	decisionRow = tables.Decision
	invoiceRow  = tables.Invoice
	usageRow    = tables.InvoiceUsage
)

func decisionRowOf(e *decisions.Entry) decisionRow {
	r := decisionRow{
		Offset: uint64(e.Offset), Kind: string(e.Kind), ID: e.Record.ID, Key: e.Record.Key, Request: e.Record.Request,
		Who: e.Record.Who, At: time.UnixMilli(0).UTC(), AppendedAt: millis(e.Appended),
		Repeats: e.Repeats, Reason: e.Reason, Number: e.Number, Chain: e.Chain, Bytes: uint64(e.Bytes),
		Body: string(e.Record.Body),
	}
	if e.Accepted {
		r.Accepted = 1
	}
	if !e.Record.At.IsZero() {
		r.At = millis(e.Record.At)
	}
	return r
}

// millis is an instant with ClickHouse's precision.
func millis(at time.Time) time.Time { return at.UTC().Truncate(time.Millisecond) }

func invoiceRowOf(offset int64, who string, at time.Time, i *decisions.Invoice, document string) (invoiceRow, error) {
	total, err := shortest(i.Total)
	if err != nil {
		return invoiceRow{}, fmt.Errorf("total of invoice %s: %w", i.Number, err)
	}
	hours, err := shortest(i.GPUHours)
	if err != nil {
		return invoiceRow{}, fmt.Errorf("GPU-hours of invoice %s: %w", i.Number, err)
	}
	return invoiceRow{
		Number: i.Number, Kind: i.Kind, Tenant: i.Tenant, Period: i.Period, Revision: uint32(i.Revision),
		Currency: i.Currency,
		Total:    total, GPUHours: hours, FromHour: i.From.UTC(), ToHour: i.To.UTC(), TimeZone: i.TimeZone,
		PriceBook:     i.PriceBook,
		ContentSHA256: i.Content.SHA256, UsageSHA256: i.Usage.SHA256, Corrects: i.Corrects, BilledIn: i.BilledIn,
		Reason:   i.Reason,
		Approval: i.Approval, Epoch: i.Epoch, Inputs: i.Inputs, Offset: uint64(offset), Who: who, At: millis(at),
		Document: document,
	}, nil
}

func shortest(amount string) (string, error) {
	d, err := decimal.NewFromString(amount)
	return d.String(), err
}

func usageRowOf(i *decisions.Invoice, r *rating.Row) usageRow {
	return usageRow{
		Number: i.Number, Tenant: i.Tenant, Period: i.Period, Revision: uint32(i.Revision), Hour: r.Hour.UTC(),
		Project: r.Project,
		Model:   r.Model, Profile: r.Profile, ProfileSlices: uint32(r.ProfileSlices), Slices: uint32(r.Slices),
		Bucket:  r.Bucket,
		SliceMS: r.SliceMS, EnergyMJ: r.EnergyMJ,
	}
}

// Limits of a batch in memory before it is inserted.
const (
	batchRows  = 5000
	batchBytes = 16 << 20
	usageRows  = 100_000
)

// batch has messages, and the invoices among them, to be inserted.
type batch struct {
	decisions []decisionRow
	invoices  []invoiceRow
	bytes     int
}

func (b *batch) full() bool { return len(b.decisions) >= batchRows || b.bytes >= batchBytes }

// insert writes the invoices before their messages, and empties the batch.
func (b *batch) insert(ctx context.Context, db *store.DB) error {
	if err := tables.Insert(ctx, db, tableInvoices, b.invoices...); err != nil {
		return err
	}
	if err := tables.Insert(ctx, db, tableDecisions, b.decisions...); err != nil {
		return err
	}
	*b = batch{}
	return nil
}
