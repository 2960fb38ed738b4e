package statement

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/plural"
	"github.com/gputally/gputally/internal/usage"
)

// fleetMonth is a month of all tenants and of the platform.
type fleetMonth struct {
	*invoice.Month
	*used
	scope  scope
	period rating.Period
	Places int32

	Bills    []*bill // by amount owed, descending
	Greatest decimal.Decimal
	Due      decimal.Decimal // by all tenants
	// ByBucket and ByModel are list values, by model only the platform's; Quantity are the platform's GPU-hours by
	// bucket.
	ByBucket, ByModel, Quantity map[string]decimal.Decimal
	open                        usage.OpenPools
}

func (p *pages) fleet(r *http.Request) (*page, error) {
	ctx := r.Context()
	period, err := rating.ParsePeriod(r.PathValue("period"))
	if err != nil {
		return nil, errors.Join(errNoPage, err)
	}
	month, err := p.deps.Invoices.List(ctx, period.String())
	if err != nil {
		return nil, err
	}
	book, err := p.deps.Invoices.Book(ctx)
	if err != nil {
		return nil, err
	}
	f := &fleetMonth{Month: month, period: period, Places: totalPlaces(month)}
	f.scope.from, f.scope.to = period.Bounds(book.Zone)
	if f.used, err = p.used(ctx, f.scope, period, book.Zone, f.scope.from, "models", "waste"); err != nil {
		return nil, err
	}
	if err := f.read(ctx, p); err != nil {
		return nil, fmt.Errorf("show fleet in %s: %w", period, err)
	}
	f.Findings.Places, f.Findings.Period = f.Places, period.String()
	title := "GPU fleet, " + f.Title()
	return &page{
		Status: http.StatusOK, Title: title, Body: "fleet.html", Paper: title,
		View: struct {
			*fleetMonth
			Notices []string
		}{f, slices.Concat(p.unfinished(f.scope.from, f.scope.to, book.Zone), f.notices())},
		Crumbs: []crumb{{"Months", Path}, {f.Title(), ""}},
	}, nil
}

// read evaluates the documents.
func (f *fleetMonth) read(ctx context.Context, p *pages) (err error) {
	f.ByBucket, f.ByModel = map[string]decimal.Decimal{}, map[string]decimal.Decimal{}
	f.Quantity = map[string]decimal.Decimal{}
	for _, l := range f.Platform.Lines {
		f.ByModel[l.Model] = f.ByModel[l.Model].Add(l.Amount.Decimal)
		f.ByBucket[l.Bucket] = f.ByBucket[l.Bucket].Add(l.Amount.Decimal)
		f.Quantity[l.Bucket] = f.Quantity[l.Bucket].Add(l.Quantity.Decimal)
	}
	for _, documents := range byTenant(f.Invoices) {
		b, err := newBill(documents)
		if err != nil {
			return err
		}
		f.Bills = append(f.Bills, b)
		f.Greatest, f.Due = decimal.Max(f.Greatest, b.Held().Held()), f.Due.Add(b.Net())
		for l := range b.lines() {
			if l.Effect == rating.EffectList {
				f.ByBucket[l.Bucket] = f.ByBucket[l.Bucket].Add(l.Amount.Decimal)
			}
		}
	}
	slices.SortStableFunc(f.Bills, func(a, b *bill) int { return b.Net().Cmp(a.Net()) })
	f.open, err = usage.FindOpenPools(ctx, p.deps.DB, usage.Query{From: f.scope.from, To: f.scope.to})
	return err
}

// byTenant groups a month's documents, which are sorted, by their tenant.
func byTenant(documents []invoice.Invoice) (chains [][]invoice.Invoice) {
	for from := 0; from < len(documents); {
		to := from + 1
		for to < len(documents) && documents[to].Tenant == documents[from].Tenant {
			to++
		}
		chains = append(chains, documents[from:to])
		from = to
	}
	return chains
}

// totalPlaces is the number of places of the month's totals; without one, two.
func totalPlaces(month *invoice.Month) int32 {
	for _, document := range month.Invoices {
		return document.Total.Places()
	}
	return 2
}

// notices describe what is missing in the page's figures.
func (f *fleetMonth) notices() (notices []string) {
	if says := f.Platform.Quarantined; says != "" {
		notices = append(notices, "The cost of free and stranded time is incomplete: "+visible(says)+".")
	}
	tenants := 0
	for i := range f.Invoices {
		if f.Invoices[i].Quarantined != "" {
			tenants++
		}
	}
	if tenants > 0 {
		notices = append(notices, plural.Of(tenants, "tenant")+" can't be invoiced yet: the statements have the reasons.")
	}
	if f.open.Hours > 0 {
		notices = append(notices, plural.Of(f.open.Pools, "pool")+
			" of unknown capacity: their free time is not known, so capacity is at least what is shown.")
	}
	return notices
}

// Title names the month.
func (f *fleetMonth) Title() string { return monthTitle(f.period) }

// Span is the month's range, with its zone.
func (f *fleetMonth) Span() string { return spanText(f.scope.from, f.scope.to, f.Findings.Zone) }

// Amount is an amount with the places of totals.
func (f *fleetMonth) Amount(d decimal.Decimal) string { return number(d, f.Places) }

// Cards are the summary's figures.
func (f *fleetMonth) Cards() []card {
	all, held := f.All.All(), f.All.Held()
	return []card{
		{"Billed to tenants", money(f.Due, f.Places, f.Currency), plural.Of(len(f.Bills), "tenant")},
		{"Capacity", gpuHours(all), "GPU-hours in the inventory"},
		{"Held", percent(held, all), gpuHours(held) + " GPU-hours by tenants"},
		{"Idle of held", percent(f.All.Of(idle), held), gpuHours(f.All.Of(idle)) + " GPU-hours"},
	}
}

// Split is the capacity by bucket, with its list value.
func (f *fleetMonth) Split() *split {
	values := map[string]string{}
	for _, b := range allBuckets {
		values[b.Name] = f.Amount(f.ByBucket[b.Name])
	}
	return newSplit("split", "Capacity by bucket", allBuckets, f.All, values)
}

// Days is the chart of the days.
func (f *fleetMonth) Days() *chart {
	return newChart("days", "Capacity by day", "Day", allBuckets, f.days)
}

// Models are the GPU models, by capacity, descending.
func (f *fleetMonth) Models() []group {
	models := slices.DeleteFunc(slices.Clone(f.groups["models"]), func(g group) bool { return g.All().IsZero() })
	slices.SortStableFunc(models, func(a, b group) int { return b.All().Cmp(a.All()) })
	return models
}

// Waste are the workloads with the most idle time, each of one tenant.
func (f *fleetMonth) Waste() []group { return f.groups["waste"] }

// TenantPath is the path of a tenant's statement.
func (f *fleetMonth) TenantPath(tenant string) string { return tenantPath(f.period.String(), tenant) }
