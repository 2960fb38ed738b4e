package billing_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/export"
	"github.com/gputally/gputally/billing/export/focus"
	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/invoice/invoicetest"
	"github.com/gputally/gputally/billing/projection"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/decisions"
)

// finalisedMonth decides all invoices, proves each from its own copy, projects
// them and exports them. The drafts of the same ledger say what to expect.
func (l *monthLedger) finalisedMonth(t *testing.T, drafts *invoice.Month) {
	register := invoicetest.Open(t, l.db, l.book, invoicetest.Broker(t))
	measure(t, "finalise all invoices", func() error {
		_, err := register.Finalise(t.Context(), invoice.FinaliseRequest{Period: monthPeriod, Who: "test"})
		return err
	})
	decidedBytes(t, register.Decisions)
	t.Run("C8", func(t *testing.T) { everyDocumentFollowsFromItsCopy(t, register, drafts) })
	t.Run("C7d", func(t *testing.T) { l.everyHourIsInvoiced(t, register) })
	t.Run("R6", func(t *testing.T) { l.projectionEqualsLog(t, register) })
	t.Run("FOCUS", func(t *testing.T) { finalisedFocusIsTotals(t, register, drafts) })
	t.Run("chargeback", func(t *testing.T) { finalisedChargebackIsTotals(t, register) })
}

// decidedBytes says what finalising left in the topic.
func decidedBytes(t *testing.T, log *decisions.Log) {
	t.Helper()
	var usage, content, messages int64
	log.View(func(s *decisions.State) {
		messages = s.Next()
		for _, i := range s.Invoices() {
			usage += i.Body.Usage.Bytes
			content += i.Body.Content.Bytes
		}
	})
	t.Logf("%d messages: %d kB of usage copies, %d kB of documents", messages, usage>>10, content>>10)
}

func totalsByNumber(month *invoice.Month) map[string]string {
	totals := map[string]string{}
	for _, i := range month.Invoices {
		totals[i.Number] = i.Total.String()
	}
	return totals
}

// everyDocumentFollowsFromItsCopy is C8 of every invoice, whose totals are the drafts'.
func everyDocumentFollowsFromItsCopy(t *testing.T, register *invoicetest.Register, drafts *invoice.Month) {
	got := map[string]string{}
	measure(t, "verify all invoices", func() error {
		return register.VerifyAll(t.Context(), func(v *invoice.Verdict) error {
			if got[v.Number] = v.Total; !v.Same {
				t.Errorf("%s doesn't follow from its copy: %s", v.Number, v.Wrong)
			}
			return nil
		})
	})
	if diff := cmp.Diff(totalsByNumber(drafts), got); diff != "" {
		t.Errorf("totals, decided against drafts (-want +got):\n%s", diff)
	}
}

// everyHourIsInvoiced is C7d on decided invoices: a tenant's hour with usage is
// invoiced where it starts in the tenant's October, and unbilled elsewhere.
func (l *monthLedger) everyHourIsInvoiced(t *testing.T, register *invoicetest.Register) {
	want := &invoice.Coverage{}
	for k, sliceMS := range l.held(t) {
		switch {
		case sliceMS == 0:
		case rating.PeriodOf(k.Hour, l.book.Location(k.Tenant)).String() == monthPeriod:
			want.Invoiced++
		default:
			want.Unbilled++
		}
	}
	var got *invoice.Coverage
	measure(t, "coverage", func() (err error) {
		got, err = register.Coverage(t.Context())
		return err
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("coverage (-want +got):\n%s", diff)
	}
	t.Logf("%d hours of tenants are invoiced, %d are unbilled", got.Invoiced, got.Unbilled)
}

// projectionEqualsLog projects the decisions and checks their rows.
func (l *monthLedger) projectionEqualsLog(t *testing.T, register *invoicetest.Register) {
	p := projection.New(projection.Deps{
		Decisions: register.Decisions, DB: l.db, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	measure(t, "project decisions", func() error {
		_, err := p.Project(t.Context())
		return err
	})
	var results []check.Result
	measure(t, "check the projection", func() (err error) {
		results, err = check.Run(t.Context(), p.Checks())
		return err
	})
	for _, result := range results {
		if !result.OK {
			t.Errorf("%s: %s: %v", result.Name, result.Figures, result.Findings)
		}
		t.Log(result.Figures)
	}
}

// finalisedFocusIsTotals writes the decided month as FOCUS: rows sum to each
// invoice, and whole-GPU list cost to what tenants and platform have by list.
func finalisedFocusIsTotals(t *testing.T, register *invoicetest.Register, drafts *invoice.Month) {
	want := map[string]string{}
	for number, total := range totalsByNumber(drafts) {
		want[number] = amountOf(t, total).String()
	}
	path, summary := writeFocus(t.Context(), t, register)
	if list := listValue(t, drafts); !summary.WholeGPUListCost.Equal(list) {
		t.Errorf("x_WholeGPUListCost sums to %s, the list value is %s", summary.WholeGPUListCost, list)
	}
	got := map[string]string{}
	for number, sum := range sumByTenant(t, path, "InvoiceId", "BilledCost") {
		if number != "" || !sum.IsZero() { // the platform's rows have none, and cost nothing
			got[number] = sum.String()
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("BilledCost by InvoiceId (-want +got):\n%s", diff)
	}
	t.Logf("%d rows", summary.Rows)
}

func writeFocus(ctx context.Context, t *testing.T, register *invoicetest.Register) (path string, summary focus.Summary) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "focus.csv")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	measure(t, "FOCUS 1.2 CSV of what was finalised", func() (err error) {
		summary, err = focus.Write(file, focus.Options{}, focus.Bills(ctx, register.Register, monthPeriod))
		return errors.Join(err, file.Close())
	})
	return path, summary
}

// listValue is what all tenants and the platform have by list, each in its own month.
func listValue(t *testing.T, month *invoice.Month) decimal.Decimal {
	t.Helper()
	list := amountOf(t, month.Platform.List.String()).Add(amountOf(t, month.Platform.QuantityRounding.String()))
	for _, i := range month.Invoices {
		list = list.Add(i.Effects.List)
	}
	return list
}

func finalisedChargebackIsTotals(t *testing.T, register *invoicetest.Register) {
	var month *invoice.Month
	measure(t, "list what was finalised", func() (err error) {
		month, err = register.List(t.Context(), monthPeriod)
		return err
	})
	var path string
	measure(t, "chargeback CSV of what was finalised", func() (err error) {
		path, err = export.Chargeback(t.TempDir(), month)
		return err
	})
	for _, i := range month.Invoices {
		if i.Status != invoice.StatusFinalised {
			t.Errorf("%s is a %s, want it finalised", i.Number, i.Status)
		}
	}
	linesAreTotals(t, month, path)
}
