package export

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/usage"
)

// header has the columns' names; text first, then numbers. quantity is in unit, amounts are in currency. If unit is
// not empty, amount is exactly quantity × unit_price.
var header = []string{
	"period", "invoice", "status", "tenant", "effect", "project", "model", "profile", "sku", "bucket",
	"quantity", "unit", "unit_price", "amount", "currency", "detail",
}

// WriteChargeback writes a month's invoices as CSV: a header, then a row per line, tenants in code-point order and
// effects in their order. A tenant who owes nothing has no rows. The platform's account follows, with the status
// StatusPlatform and neither invoice nor tenant: its list value by model and bucket, the rounding of quantities, and
// the distribution to owners. Hours that are left out of a document, since they can't be billed or their model has no
// rate, are one row of 0 with the effect left_out and the reason in detail. The list rows of tenants and platform and
// the rounding sum to the capacity's list value (C7b); rows of tenants alone sum to the invoices.
func WriteChargeback(w io.Writer, month *invoice.Month) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true // RFC 4180, section 2
	if err := out.Write(header); err != nil {
		return fmt.Errorf("write chargeback: %w", err)
	}
	for i := range month.Invoices {
		for _, line := range slices.Concat(leftOut(month.Invoices[i].Quarantined), month.Invoices[i].Lines) {
			if err := out.Write(record(&month.Invoices[i], line)); err != nil {
				return fmt.Errorf("write chargeback of tenant %q: %w", month.Invoices[i].Tenant, err)
			}
		}
	}
	for _, line := range platformLines(&month.Platform) {
		if err := out.Write(record(platformOf(month), line)); err != nil {
			return fmt.Errorf("write chargeback of the platform: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write chargeback: %w", err)
	}
	return nil
}

func leftOut(says string) []invoice.Line {
	if says == "" {
		return nil
	}
	return []invoice.Line{{Effect: "left_out", Amount: rating.Exact(decimal.Zero), Detail: says}}
}

// StatusPlatform marks the platform's rows, which nobody pays.
const StatusPlatform = "platform"

func platformOf(month *invoice.Month) *invoice.Invoice {
	return &invoice.Invoice{Period: month.Period, Status: StatusPlatform, Currency: month.Currency}
}

// platformLines are the account's lines, without amounts of zero.
func platformLines(p *invoice.Platform) []invoice.Line {
	lines := slices.Concat(leftOut(p.Quarantined), p.Lines)
	for _, line := range []invoice.Line{
		{Effect: "quantity_rounding", Amount: p.QuantityRounding, Detail: "what rounding quantities left to capacity"},
		{Effect: rating.EffectDistribution, Amount: p.Distribution, Detail: "charged to owners"},
	} {
		if !line.Amount.IsZero() {
			lines = append(lines, line)
		}
	}
	return lines
}

func record(of *invoice.Invoice, line invoice.Line) []string {
	text := usage.TextCell
	return []string{
		text(of.Period), text(of.Number), text(of.Status), text(of.Tenant), text(line.Effect), text(line.Project),
		text(line.Model), text(line.Profile), text(line.SKU), text(line.Bucket),
		line.Quantity.String(), text(line.Unit), line.UnitPrice.String(), line.Amount.String(), text(of.Currency),
		text(line.Detail),
	}
}
