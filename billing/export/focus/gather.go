package focus

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/rating"
)

// Gathered keeps charges by tenant as sums of a UTC day each: what one pass
// over all tenants leaves to bills of one tenant each. Its memory depends on
// days × what tenants hold, not on how many GPUs that is.
type Gathered map[string]map[dayKey][]*rating.Charge

// dayKey is what charges of a tenant are summed by, beside their price.
type dayKey struct {
	day                                                   int64 // Unix seconds
	version, slices, profileSlices                        int
	effect, project, model, profile, bucket, unit, detail string
}

// Add takes a charge; its day's charges of one kind become one.
func (g Gathered) Add(c rating.Charge) {
	c.Hour = c.Hour.UTC()
	if !c.Hour.IsZero() {
		c.Hour = c.Hour.Truncate(24 * time.Hour)
	}
	of := g[c.Tenant]
	if of == nil {
		of = map[dayKey][]*rating.Charge{}
		g[c.Tenant] = of
	}
	k := dayKey{
		day: c.Hour.Unix(), version: c.Version, slices: c.Slices, profileSlices: c.ProfileSlices,
		effect: c.Effect, project: c.Project, model: c.Model, profile: c.Profile, bucket: c.Bucket, unit: c.Unit,
		detail: c.Detail,
	}
	for _, sum := range of[k] {
		if sum.UnitPrice.Equal(c.UnitPrice) {
			sum.SliceMS += c.SliceMS
			sum.Quantity = sum.Quantity.Add(c.Quantity)
			sum.Amount = sum.Amount.Add(c.Amount)
			return
		}
	}
	of[k] = append(of[k], &c)
}

// Of are a tenant's charges, for Bill; the empty tenant's are the platform's.
func (g Gathered) Of(tenant string) func(yield func(rating.Charge)) error {
	return func(yield func(rating.Charge)) error {
		for _, prices := range g[tenant] {
			for _, c := range prices {
				yield(*c)
			}
		}
		return nil
	}
}

// Drafts are a month's bills as the ledger has them now, from one pass over
// it: the tenants' drafts but those of some tenants, of whom nothing is kept, then
// the platform. Errors are those of invoice.Drafts.List.
func Drafts(ctx context.Context, drafts *invoice.Drafts, period string, but map[string]bool) iter.Seq2[Bill, error] {
	return func(yield func(Bill, error) bool) {
		gathered := Gathered{}
		month, err := drafts.Charges(ctx, period, func(c rating.Charge) {
			if !but[c.Tenant] {
				gathered.Add(c)
			}
		})
		if err != nil {
			yield(Bill{}, err)
			return
		}
		for i := range month.Invoices {
			if but[month.Invoices[i].Tenant] {
				continue
			}
			bill := draftOf(&month.Invoices[i])
			bill.Book, bill.Charges = drafts.Book(), gathered.Of(bill.Tenant)
			if !yield(bill, nil) {
				return
			}
			delete(gathered, bill.Tenant)
		}
		platform, err := platformOf(drafts, month)
		platform.Charges = gathered.Of("")
		yield(platform, err)
	}
}

func draftOf(of *invoice.Invoice) Bill {
	return Bill{
		Kind: KindDraft, Tenant: of.Tenant, Period: of.Period, TimeZone: of.TimeZone, From: of.From, To: of.To,
		Currency: of.Currency,
		Total:    of.Total.Decimal, UsageHash: of.UsageHash,
	}
}

func platformOf(drafts *invoice.Drafts, month *invoice.Month) (Bill, error) {
	book := drafts.Book()
	bill := Bill{
		Kind: KindPlatform, Period: month.Period, TimeZone: book.Zone.String(), Currency: month.Currency,
		Book: book,
	}
	period, err := rating.ParsePeriod(month.Period)
	if err != nil {
		return bill, err
	}
	bill.From, bill.To = period.Bounds(book.Zone)
	bill.QuantityRounding = month.Platform.QuantityRounding.Decimal
	return bill, nil
}

// Bills are a month's bills as the register has them: the finalised invoices,
// the notes that are billed in it, drafts for tenants without an invoice, and
// the platform. Errors are those of invoice.Register.
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
