package projection

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/decisions"
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

func rowOf(e *decisions.Entry) decisionRow {
	r := decisionRow{
		Offset: uint64(e.Offset), Kind: string(e.Kind), ID: e.Record.ID, Key: e.Record.Key, Request: e.Record.Request,
		Who: e.Record.Who, At: time.UnixMilli(0).UTC(), Appended: e.Appended.Truncate(time.Millisecond), Accepted: flag(e.Accepted),
		Repeats: e.Repeats, Reason: e.Reason, Number: e.Number, Chain: e.Chain, Bytes: uint64(e.Bytes), Body: string(e.Record.Body),
	}
	if !e.Record.At.IsZero() {
		r.At = e.Record.At.Truncate(time.Millisecond)
	}
	return r
}

// invoiceRow is a row of invoices.
type invoiceRow struct {
	Number   string          `ch:"number"`
	Kind     string          `ch:"kind"`
	Tenant   string          `ch:"tenant"`
	Period   string          `ch:"period"`
	Revision uint32          `ch:"revision"`
	Currency string          `ch:"currency"`
	Total    decimal.Decimal `ch:"total"`
	GPUHours decimal.Decimal `ch:"gpu_hours"`
	From     time.Time       `ch:"from_hour"`
	To       time.Time       `ch:"to_hour"`
	TimeZone string          `ch:"time_zone"`
	Book     string          `ch:"price_book"`
	Content  string          `ch:"content_sha256"`
	Usage    string          `ch:"usage_sha256"`
	Corrects string          `ch:"corrects"`
	BilledIn string          `ch:"billed_in"`
	Reason   string          `ch:"reason"`
	Approval string          `ch:"approval"`
	Epoch    uint32          `ch:"epoch"`
	Inputs   uint64          `ch:"inputs"`
	Offset   uint64          `ch:"offset"`
	Who      string          `ch:"who"`
	At       time.Time       `ch:"at"`
	Document string          `ch:"document_sha256"`
}

// told is a row as text, amounts in one form: what two rows are compared by.
func (r invoiceRow) told() string {
	total, hours := r.Total.String(), r.GPUHours.String()
	r.Total, r.GPUHours = decimal.Decimal{}, decimal.Decimal{}
	r.From, r.To, r.At = r.From.UTC(), r.To.UTC(), r.At.UTC().Truncate(time.Millisecond)
	return strings.Join([]string{fmt.Sprintf("%+v", r), total, hours}, " ")
}

func invoiceRowOf(e *decisions.Decided[decisions.Invoice]) (invoiceRow, error) {
	i := &e.Body
	total, err := decimal.NewFromString(i.Total)
	hours, errHours := decimal.NewFromString(i.GPUHours)
	return invoiceRow{
		Number: i.Number, Kind: i.Kind, Tenant: i.Tenant, Period: i.Period, Revision: uint32(i.Revision), Currency: i.Currency,
		Total: total, GPUHours: hours, From: i.From, To: i.To, TimeZone: i.TimeZone, Book: i.PriceBook,
		Content: i.Content.SHA256, Usage: i.Usage.SHA256, Corrects: i.Corrects, BilledIn: i.BilledIn, Reason: i.Reason,
		Approval: i.Approval, Epoch: i.Epoch, Inputs: i.Inputs, Offset: uint64(e.Offset), Who: e.Who, At: e.At, Document: i.Content.SHA256,
	}, errors.Join(err, errHours)
}

// usageRow is a row of invoice_usage.
type usageRow struct {
	Number        string    `ch:"number"`
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

func usageRowOf(number string, r *rating.Row) usageRow {
	return usageRow{
		number, r.Hour.UTC(), r.Project, r.Model, r.Profile, uint32(r.ProfileSlices), uint32(r.Slices), r.Bucket, r.SliceMS, r.EnergyMJ,
	}
}
