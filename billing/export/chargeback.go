package export

import (
	"encoding/csv"
	"fmt"
	"io"

	"github.com/gpuledger/gpuledger/billing/invoice"
	"github.com/gpuledger/gpuledger/internal/usage"
)

// header names the columns; text first, then numbers. quantity is in unit,
// amounts are in currency. Where unit is not empty, amount is exactly
// quantity × unit_price.
var header = []string{
	"period", "invoice", "status", "tenant", "effect", "project", "model", "profile", "sku", "bucket",
	"quantity", "unit", "unit_price", "amount", "currency", "detail",
}

// WriteChargeback writes a month's invoices as CSV: a header, then a row per
// line, tenants in code-point order and effects in theirs. A tenant who owes
// nothing has no rows.
func WriteChargeback(w io.Writer, month *invoice.Month) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true // RFC 4180, section 2
	if err := out.Write(header); err != nil {
		return fmt.Errorf("write chargeback: %w", err)
	}
	for i := range month.Invoices {
		for _, line := range month.Invoices[i].Lines {
			if err := out.Write(record(&month.Invoices[i], line)); err != nil {
				return fmt.Errorf("write chargeback of tenant %q: %w", month.Invoices[i].Tenant, err)
			}
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write chargeback: %w", err)
	}
	return nil
}

func record(of *invoice.Invoice, line invoice.Line) []string {
	text := usage.TextCell
	return []string{
		text(of.Period), text(of.Number), text(of.Status), text(of.Tenant), text(line.Effect), text(line.Project),
		text(line.Model), text(line.Profile), text(line.SKU), text(line.Bucket),
		line.Quantity, text(line.Unit), line.UnitPrice, line.Amount, text(of.Currency), text(line.Detail),
	}
}
