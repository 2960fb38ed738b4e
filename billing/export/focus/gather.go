package focus

import (
	"context"
	"fmt"
	"iter"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
)

// Drafts are a month's bills as the ledger has them now, from one pass over
// it: the tenants' drafts but those of some tenants, of whom nothing is kept, then
// the platform. Errors are those of invoice.Drafts.List.
func Drafts(ctx context.Context, drafts *invoice.Drafts, period string, but map[string]bool) iter.Seq2[Bill, error] {
	return func(yield func(Bill, error) bool) {
		calendar, err := rating.ParsePeriod(period)
		if err != nil {
			yield(Bill{}, err)
			return
		}
		bills := map[string]*Bill{}
		of := func(tenant string) *Bill {
			if bills[tenant] == nil {
				bills[tenant] = draftOf(drafts.Book(), calendar, tenant)
			}
			return bills[tenant]
		}
		month, err := drafts.Charges(ctx, period, func(c rating.Charge) {
			if !but[c.Tenant] {
				of(c.Tenant).gathered.add(c)
			}
		})
		if err != nil {
			yield(Bill{}, err)
			return
		}
		for i := range month.Invoices {
			document := &month.Invoices[i]
			if but[document.Tenant] {
				continue
			}
			bill := of(document.Tenant)
			bill.Total, bill.UsageHash = document.Total.Decimal, document.UsageHash
			if !yield(*bill, nil) {
				return
			}
			delete(bills, bill.Tenant)
		}
		platform := of("")
		platform.QuantityRounding = month.Platform.QuantityRounding.Decimal
		yield(*platform, nil)
	}
}

// draftOf returns a tenant's draft or, if tenant is empty, the platform's, without charges.
func draftOf(book *prices.Book, period rating.Period, tenant string) *Bill {
	bill := &Bill{
		Kind: KindDraft, Tenant: tenant, Period: period.String(), TimeZone: book.Location(tenant).String(),
		Currency: book.Currency, Book: book,
	}
	if tenant == "" {
		bill.Kind = KindPlatform
	}
	bill.From, bill.To = period.Bounds(book.Location(tenant))
	bill.gathered = newGathering(bill)
	return bill
}

// Bills returns a month's bills of the register: the finalised invoices, the notes that are billed in it, drafts for
// tenants without an invoice, and the platform. Errors are those of invoice.Register.
func Bills(ctx context.Context, register *invoice.Register, period string) iter.Seq2[Bill, error] {
	return func(yield func(Bill, error) bool) {
		decided, err := register.Bills(ctx, period)
		if err != nil {
			yield(Bill{}, err)
			return
		}
		finalised := map[string]bool{}
		for i := range decided {
			bill, err := billOf(&decided[i])
			if !yield(bill, err) {
				return
			}
			if bill.Kind == KindInvoice {
				finalised[bill.Tenant] = true
			}
		}
		drafts, err := register.Drafts(ctx, period)
		if err != nil {
			yield(Bill{}, err)
			return
		}
		for bill, err := range Drafts(ctx, drafts, period, finalised) {
			if !yield(bill, err) {
				return
			}
		}
	}
}

func billOf(decided *invoice.Bill) (Bill, error) {
	record := &decided.Record
	total, err := decimal.NewFromString(record.Total)
	if err != nil {
		return Bill{}, fmt.Errorf("bill %s: total %q: %w", record.Number, record.Total, err)
	}
	return Bill{
		Number: record.Number, Kind: record.Kind, Tenant: record.Tenant, Period: record.Period, BilledIn: record.BilledIn,
		TimeZone: record.TimeZone, From: record.From, To: record.To, Currency: record.Currency, Total: total,
		Book: decided.Book, UsageHash: record.Usage.SHA256, Charges: decided.Charges,
	}, nil
}
