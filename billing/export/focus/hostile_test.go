package focus_test

import (
	"iter"
	"testing"
	"time"

	"github.com/gputally/gputally/billing/export/focus"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
)

const hostileTerms = `    "=HYPERLINK(\"http://x\",\"y\")": {discount: "0.155", fixed_discount: "0.51"}
    "+a": {minimum: "9.99"}
    "@quo\"ted, and\r\nnew\tlines": {reserved: [{model: NVIDIA H100, gpus: "1.5", unused_gpu_hour: "1.801"}]}
    "Ünï 日本 😀": {discount: "0.333", reserved: [{model: "=A1/100%", gpus: "0.01", unused_gpu_hour: "0.09"}]}
    "12345": {discount: "1"}
    kolkata: {fixed_discount: "0.01", minimum: "100.00"}`

// hostileBook has every effect, two versions within the month, zones, and
// names that a spreadsheet, a CSV reader or a terminal would trip over.
const hostileBook = `currency: EUR
time_zone: UTC
tenants: {kolkata: {time_zone: Asia/Kolkata}, "Ünï 日本 😀": {time_zone: America/New_York}}
versions:
- effective: 2026-01-01T00:00:00Z
  models:
    "NVIDIA H100": {gpu_hour: "2.4937", profiles: {1g.10gb: "0.4003"}, tiers: [{above: "1", gpu_hour: "1.11"}, {above: "2", gpu_hour: "3.333"}]}
    "=A1/100%": {gpu_hour: "0.07"}
  kwh: "0.283"
  idle_surcharge: "0.107"
  distribution: proportional
  tenants:
` + hostileTerms + `
- effective: 2026-03-11T07:00:00Z
  models:
    "NVIDIA H100": {gpu_hour: "2.5", profiles: {2g.20gb: "0.91"}, tiers: [{above: "3", gpu_hour: "0"}]}
    "=A1/100%": {gpu_hour: "0"}
  kwh: "0.30"
  idle_surcharge: "0.5"
  distribution: proportional
  tenants:
` + hostileTerms + "\n"

var hostileTenants = []string{
	`=HYPERLINK("http://x","y")`, "+a", "-b", "@quo\"ted, and\r\nnew\tlines", "Ünï 日本 😀", "12345", "kolkata", "bad\xffutf8", "' OR 1=1 --", " ",
}

var march = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func parse(t testing.TB, text string) *prices.Book {
	t.Helper()
	book, err := prices.Parse("book.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// hostileRows are usage of all tenants around the month's ends and around the
// change of prices, rows of no time, and energy that runs backwards.
func hostileRows() []rating.Row {
	var rows []rating.Row
	hours := []time.Time{
		march.Add(-6 * time.Hour), march, march.Add(time.Hour), march.AddDate(0, 0, 10).Add(6 * time.Hour),
		march.AddDate(0, 0, 10).Add(7 * time.Hour), march.AddDate(0, 1, 0).Add(-6 * time.Hour), march.AddDate(0, 1, 0).Add(-time.Hour), march.AddDate(0, 1, 0).Add(2 * time.Hour),
	}
	buckets := []string{"active", "idle", "unproven"}
	for i, hour := range hours {
		for j, tenant := range hostileTenants {
			row := rating.Row{
				Hour: hour, Tenant: tenant, Project: []string{"", "=1+1", "p, \"q\"\n"}[(i+j)%3], Model: "NVIDIA H100", Slices: 7,
				Bucket: buckets[(i+2*j)%3], SliceMS: int64(7_654_321*(i+1) + 1_234_567*j), EnergyMJ: int64(1_234_567_891 * (i + j)),
			}
			rows = append(rows, row)
			row.Profile, row.ProfileSlices, row.SliceMS = "1g.10gb", 1, int64(3_600_000-i*j)
			rows = append(rows, row)
			row.Profile, row.ProfileSlices, row.EnergyMJ = "2g.20gb", 2, -9_876_543_210
			rows = append(rows, row)
			row.Project, row.SliceMS = "energy alone", 0
			rows = append(rows, row)
			rows = append(rows, rating.Row{Hour: hour, Tenant: tenant, Model: "=A1/100%", Slices: 1, Bucket: "idle", SliceMS: int64(1 + j)})
		}
		for k, bucket := range []string{"free", "stranded", "unhealthy", "unobserved"} {
			rows = append(rows,
				rating.Row{Hour: hour, Model: "NVIDIA H100", Slices: 7, Bucket: bucket, SliceMS: int64(25_200_000*(5-k) + i)},
				rating.Row{Hour: hour, Model: "=A1/100%", Slices: 1, Bucket: bucket, SliceMS: 3_600_000})
		}
	}
	return rows
}

// charges are those of a month, by tenant.
type charges map[string][]rating.Charge

func (c charges) of(tenant string) func(yield func(rating.Charge)) error {
	return func(yield func(rating.Charge)) error {
		for _, charge := range c[tenant] {
			yield(charge)
		}
		return nil
	}
}

// rated is a month's bills as focus is given them: drafts, or invoices.
type rated struct {
	book   *prices.Book
	period string
	result *rating.Result
	each   charges
}

func rate(t testing.TB, book *prices.Book, period string, rows []rating.Row) *rated {
	t.Helper()
	month, err := rating.ParsePeriod(period)
	if err != nil {
		t.Fatal(err)
	}
	r := &rated{book: book, period: period, each: charges{}}
	r.result, err = rating.Rate(book, month, rows, rating.Options{
		Observe: func(c rating.Charge) { r.each[c.Tenant] = append(r.each[c.Tenant], c) }, Simulate: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rated) bill(i *rating.Invoice, kind string) focus.Bill {
	month, _ := rating.ParsePeriod(r.period)
	hours := month.Hours(r.book.Location(i.Tenant))
	bill := focus.Bill{
		Kind: kind, Tenant: i.Tenant, Period: r.period, TimeZone: r.book.Location(i.Tenant).String(),
		From: hours[0], To: hours[len(hours)-1].Add(time.Hour), Currency: r.book.Currency, Total: i.Total.Decimal,
		Book: r.book, UsageHash: i.UsageHash, Charges: r.each.of(i.Tenant),
	}
	if kind == focus.KindInvoice {
		bill.Number = r.period + "-" + i.Tenant + "-r0"
	}
	return bill
}

func (r *rated) platform() focus.Bill {
	bill := r.bill(&rating.Invoice{}, focus.KindPlatform)
	bill.QuantityRounding = r.result.Platform.QuantityRounding.Decimal
	return bill
}

// bills are all of the month: invoices, or drafts, and the platform.
func (r *rated) bills(kind string) iter.Seq2[focus.Bill, error] {
	var list []focus.Bill
	for i := range r.result.Invoices {
		list = append(list, r.bill(&r.result.Invoices[i], kind))
	}
	return of(append(list, r.platform())...)
}

func of(bills ...focus.Bill) iter.Seq2[focus.Bill, error] {
	return func(yield func(focus.Bill, error) bool) {
		for _, bill := range bills {
			if !yield(bill, nil) {
				return
			}
		}
	}
}

// note is what a month comes to with other usage, less what was billed.
func (r *rated) note(tenant string, now *rated, billedIn string) focus.Bill {
	var before, after *rating.Invoice
	for i := range r.result.Invoices {
		if r.result.Invoices[i].Tenant == tenant {
			before = &r.result.Invoices[i]
		}
	}
	for i := range now.result.Invoices {
		if now.result.Invoices[i].Tenant == tenant {
			after = &now.result.Invoices[i]
		}
	}
	bill := now.bill(after, focus.KindCreditNote)
	bill.Number, bill.BilledIn, bill.Total = r.period+"-"+tenant+"-r1", billedIn, after.Total.Sub(before.Total.Decimal)
	if bill.Total.IsPositive() {
		bill.Kind = focus.KindDebitNote
	}
	bill.Charges = func(yield func(rating.Charge)) error {
		if err := now.each.of(tenant)(yield); err != nil {
			return err
		}
		return r.each.of(tenant)(func(c rating.Charge) {
			c.SliceMS, c.Quantity, c.Amount = -c.SliceMS, c.Quantity.Neg(), c.Amount.Neg()
			yield(c)
		})
	}
	return bill
}
