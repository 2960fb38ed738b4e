package projection

import (
	"context"
	"fmt"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/store"
)

const (
	tableDecisions = "decisions"
	tableInvoices  = "invoices"
	tableUsage     = "invoice_usage"
)

// decisionRow is a row of decisions.
type decisionRow struct {
	Offset   uint64    `ch:"offset"`
	Kind     string    `ch:"kind"`
	ID       string    `ch:"id"`
	Key      string    `ch:"key"`
	Request  string    `ch:"request"`
	Who      string    `ch:"who"`
	At       time.Time `ch:"at"`
	Appended time.Time `ch:"appended_at"`
	Accepted uint8     `ch:"accepted"`
	Repeats  int64     `ch:"repeats"`
	Reason   string    `ch:"reason"`
	Number   string    `ch:"number"`
	Chain    string    `ch:"chain"`
	Bytes    uint64    `ch:"bytes"`
	Body     string    `ch:"body"`
}

func decisionRowOf(e *decisions.Entry) decisionRow {
	r := decisionRow{
		Offset: uint64(e.Offset), Kind: string(e.Kind), ID: e.Record.ID, Key: e.Record.Key, Request: e.Record.Request,
		Who: e.Record.Who, At: time.UnixMilli(0).UTC(), Appended: millis(e.Appended),
		Repeats: e.Repeats, Reason: e.Reason, Number: e.Number, Chain: e.Chain, Bytes: uint64(e.Bytes), Body: string(e.Record.Body),
	}
	if e.Accepted {
		r.Accepted = 1
	}
	if !e.Record.At.IsZero() {
		r.At = millis(e.Record.At)
	}
	return r
}

// millis is an instant as ClickHouse gives it back.
func millis(at time.Time) time.Time { return at.UTC().Truncate(time.Millisecond) }

// invoiceRow is a row of invoices. Its amounts are decimals in their shortest
// form, which ClickHouse reads, and writes by toString, exactly.
type invoiceRow struct {
	Number   string    `ch:"number"`
	Kind     string    `ch:"kind"`
	Tenant   string    `ch:"tenant"`
	Period   string    `ch:"period"`
	Revision uint32    `ch:"revision"`
	Currency string    `ch:"currency"`
	Total    string    `ch:"total"`
	GPUHours string    `ch:"gpu_hours"`
	From     time.Time `ch:"from_hour"`
	To       time.Time `ch:"to_hour"`
	TimeZone string    `ch:"time_zone"`
	Book     string    `ch:"price_book"`
	Content  string    `ch:"content_sha256"`
	Usage    string    `ch:"usage_sha256"`
	Corrects string    `ch:"corrects"`
	BilledIn string    `ch:"billed_in"`
	Reason   string    `ch:"reason"`
	Approval string    `ch:"approval"`
	Epoch    uint32    `ch:"epoch"`
	Inputs   uint64    `ch:"inputs"`
	Offset   uint64    `ch:"offset"`
	Who      string    `ch:"who"`
	At       time.Time `ch:"at"`
	Document string    `ch:"document"` // to be compared: its SHA-256
}

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
		Number: i.Number, Kind: i.Kind, Tenant: i.Tenant, Period: i.Period, Revision: uint32(i.Revision), Currency: i.Currency,
		Total: total, GPUHours: hours, From: i.From.UTC(), To: i.To.UTC(), TimeZone: i.TimeZone, Book: i.PriceBook,
		Content: i.Content.SHA256, Usage: i.Usage.SHA256, Corrects: i.Corrects, BilledIn: i.BilledIn, Reason: i.Reason,
		Approval: i.Approval, Epoch: i.Epoch, Inputs: i.Inputs, Offset: uint64(offset), Who: who, At: millis(at), Document: document,
	}, nil
}

func shortest(amount string) (string, error) {
	d, err := decimal.NewFromString(amount)
	return d.String(), err
}

// usageRow is a row of invoice_usage.
type usageRow struct {
	Number        string    `ch:"number"`
	Tenant        string    `ch:"tenant"`
	Period        string    `ch:"period"`
	Revision      uint32    `ch:"revision"`
	Hour          time.Time `ch:"hour"`
	Project       string    `ch:"project"`
	Model         string    `ch:"model"`
	Profile       string    `ch:"profile"`
	ProfileSlices uint32    `ch:"profile_slices"`
	Slices        uint32    `ch:"slices"`
	Bucket        string    `ch:"bucket"`
	SliceMS       int64     `ch:"slice_ms"`
	EnergyMJ      int64     `ch:"energy_mj"`
}

func usageRowOf(i *decisions.Invoice, r *rating.Row) usageRow {
	return usageRow{
		i.Number, i.Tenant, i.Period, uint32(i.Revision), r.Hour.UTC(), r.Project, r.Model, r.Profile,
		uint32(r.ProfileSlices), uint32(r.Slices), r.Bucket, r.SliceMS, r.EnergyMJ,
	}
}

// Bounds of what waits in memory for an insert.
const (
	batchRows  = 5000
	batchBytes = 16 << 20
	usageRows  = 100_000
)

// batch is messages, and the invoices among them, on their way.
type batch struct {
	decisions []decisionRow
	invoices  []invoiceRow
	bytes     int
}

func (b *batch) full() bool { return len(b.decisions) >= batchRows || b.bytes >= batchBytes }

// insert writes the invoices before the messages that they came in, and empties
// the batch.
func (b *batch) insert(ctx context.Context, db *store.DB) error {
	if err := store.InsertRows(ctx, db, tableInvoices, b.invoices); err != nil {
		return err
	}
	if err := store.InsertRows(ctx, db, tableDecisions, b.decisions); err != nil {
		return err
	}
	*b = batch{}
	return nil
}
