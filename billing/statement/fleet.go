package statement

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/usage"
)

// fleetView is a month of all tenants and of the platform.
type fleetView struct {
	Month, From, To, TimeZone string
	Currency                  string
	Cards                     []card
	Notices                   []string
	Split                     *split
	Days                      *chart
	Tenants                   []tenantRow
	TenantsTotal              string
	Models                    []modelRow
	Platform                  platformView
	Waste                     []topRow
	Findings                  wasteView
}

// tenantRow is a tenant in the fleet's table.
type tenantRow struct {
	Name, Path, Status, Notes, Hours, IdleShare, IdleCost, Total string
	Bar                                                          []part
}

// modelRow is a GPU model's month.
type modelRow struct {
	Name, Capacity, Held, HeldShare, IdleShare string
	Free, Stranded, Unhealthy, Unobserved      string
	Value                                      string // list value of what nobody held
}

// platformView is the time that nobody is billed for, by list value.
type platformView struct {
	Rows                                 []platformRow
	Total, Distributed, Tenants, Quantum string
	Capacity                             string
}

type platformRow struct {
	bucket
	Hours, Value string
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
	zone := book.Zone
	inMonth := period.Hours(zone)
	s := scope{from: inMonth[0], to: inMonth[len(inMonth)-1].Add(time.Hour)}
	f := &fleetMonth{Month: month, period: period, zone: zone, scope: s}
	if err := f.read(ctx, p); err != nil {
		return nil, err
	}
	view, err := f.view()
	if err != nil {
		return nil, fmt.Errorf("show fleet in %s: %w", period, err)
	}
	view.Notices = slices.Concat(p.unfinished(s.from, s.to, zone), leftOut(month), view.Notices)
	return &page{
		Status: http.StatusOK, Title: "GPU fleet, " + view.Month, Body: "fleet.html", View: view, Paper: "GPU fleet, " +
			view.Month,
		Crumbs: []crumb{{"Months", Path}, {view.Month, ""}},
	}, nil
}

// leftOut are notices of hours that the money on the page has not.
func leftOut(month *invoice.Month) (notices []string) {
	if says := month.Platform.Quarantined; says != "" {
		notices = append(notices, "The money of free and stranded time is not complete: "+visible(says)+".")
	}
	tenants := 0
	for i := range month.Invoices {
		if month.Invoices[i].Quarantined != "" {
			tenants++
		}
	}
	if tenants > 0 {
		notices = append(notices, counted(tenants, "tenant")+" can't be invoiced yet: their statements say why.")
	}
	return notices
}

// fleetMonth is what a fleet's page is made of.
type fleetMonth struct {
	*invoice.Month
	period      rating.Period
	zone        *time.Location
	scope       scope
	days        []column
	all         hours
	models      []group
	waste       []group
	episodes    []episode
	episodeSums []episodeSum
	open        usage.OpenPools
	bills       []*bill
	places      int32
}

func (f *fleetMonth) read(ctx context.Context, p *pages) error {
	byHour, err := p.groups(ctx, "hours", f.scope)
	if err != nil {
		return err
	}
	if f.days, _, err = columnsOf(byHour, f.period, f.zone); err != nil {
		return err
	}
	for _, day := range f.days {
		f.all.add(day.hours)
	}
	if f.models, err = p.groups(ctx, "models", f.scope); err != nil {
		return err
	}
	if f.waste, err = p.groups(ctx, "waste", f.scope); err != nil {
		return err
	}
	if f.episodes, err = p.episodes(ctx, f.scope); err != nil {
		return err
	}
	if f.episodeSums, err = p.episodeSums(ctx, f.scope); err != nil {
		return err
	}
	f.open, err = usage.FindOpenPools(ctx, p.deps.DB, usage.Query{From: f.scope.from, To: f.scope.to})
	return err
}

func (f *fleetMonth) view() (*fleetView, error) {
	f.places = totalPlaces(f.Month)
	for _, documents := range byTenant(f.Invoices) {
		b, err := newBill(documents)
		if err != nil {
			return nil, err
		}
		f.bills = append(f.bills, b)
	}
	platform, byModel, values := f.platform()
	view := &fleetView{
		Month: monthTitle(f.period), From: instant(f.scope.from, f.zone), To: instant(f.scope.to, f.zone),
		TimeZone: zoneTitle(f.zone),
		Currency: f.Currency,
		Split:    newSplit("split", "Where the capacity went", allBuckets, f.all, values),
		Days:     newChart("days", "Capacity by day", "Day", allBuckets, f.days),
		Platform: platform, Models: f.modelRows(byModel), Waste: f.wasteRows(),
	}
	view.Tenants, view.TenantsTotal = f.tenantRows()
	view.Findings.addEpisodes(f.episodes, f.episodeSums, f.places, f.zone, f.period.String())
	view.Cards = []card{
		{Name: "Billed to tenants", Value: view.TenantsTotal, More: counted(len(f.bills), "tenant")},
		{Name: "Capacity", Value: gpuHours(f.all.all()), More: "GPU-hours in the inventory"},
		{Name: "Held", Value: percent(f.all.held(), f.all.all()), More: gpuHours(f.all.held()) + " GPU-hours by tenants"},
		{Name: "Idle of held", Value: percent(f.all.of(idle), f.all.held()), More: gpuHours(f.all.of(idle)) + " GPU-hours"},
	}
	if f.open.Hours > 0 {
		view.Notices = append(view.Notices,
			fmt.Sprintf("%s of unknown capacity: their free time is not known, so capacity is at least what is shown.",
				counted(int(f.open.Pools), "pool")))
	}
	return view, nil
}

// byTenant parts a month's documents, which are sorted, by their tenant.
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

func counted(count int, what string) string {
	if count == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", count, what)
}

// tenantRows are the tenants by what they owe, the most first.
func (f *fleetMonth) tenantRows() (rows []tenantRow, total string) {
	greatest, due := decimal.Zero, decimal.Zero
	held := make(map[*bill]hours, len(f.bills))
	for _, b := range f.bills {
		held[b] = b.held()
		greatest = decimal.Max(greatest, held[b].held())
		due = due.Add(b.net())
	}
	sorted := slices.Clone(f.bills)
	slices.SortStableFunc(sorted, func(a, b *bill) int { return b.net().Cmp(a.net()) })
	for _, b := range sorted {
		document, h := b.documents[0], held[b]
		row := tenantRow{
			Name: visible(document.Tenant), Path: tenantPath(f.period.String(), document.Tenant), Status: document.Status,
			Hours: gpuHours(h.held()), IdleShare: percent(h.of(idle), h.held()), IdleCost: number(b.idleCost(), f.places),
			Total: number(b.net(), f.places), Bar: rowBar(heldBuckets, h, greatest),
		}
		if notes := len(b.documents) - 1; notes > 0 {
			row.Notes = counted(notes, "note")
		}
		rows = append(rows, row)
	}
	return rows, money(due, f.places, f.Currency)
}

// platform is the platform's account by bucket and by model, and the list value
// of all seven buckets as text.
func (f *fleetMonth) platform() (view platformView, byModel map[string]decimal.Decimal, values map[string]string) {
	byModel = map[string]decimal.Decimal{}
	byBucket, quantity := map[string]decimal.Decimal{}, map[string]decimal.Decimal{}
	for _, l := range f.Platform.Lines {
		byModel[l.Model] = byModel[l.Model].Add(l.Amount.Decimal)
		byBucket[l.Bucket] = byBucket[l.Bucket].Add(l.Amount.Decimal)
		quantity[l.Bucket] = quantity[l.Bucket].Add(l.Quantity.Decimal)
	}
	for _, b := range platformBuckets {
		view.Rows = append(view.Rows, platformRow{b, gpuHours(quantity[b.Name]), number(byBucket[b.Name], f.places)})
	}
	for _, b := range f.bills {
		for l := range b.lines() {
			if l.Effect == rating.EffectList {
				byBucket[l.Bucket] = byBucket[l.Bucket].Add(l.Amount.Decimal)
			}
		}
	}
	values = map[string]string{}
	for _, b := range allBuckets {
		values[b.Name] = number(byBucket[b.Name], f.places)
	}
	of, p := func(m invoice.Money) string { return number(m.Decimal, f.places) }, &f.Platform
	view.Total, view.Tenants = of(p.List), of(p.TenantsList)
	view.Quantum, view.Capacity = of(p.QuantityRounding), of(p.CapacityList)
	if !p.Distribution.IsZero() {
		view.Distributed = of(p.Distribution)
	}
	return view, byModel, values
}

func (f *fleetMonth) modelRows(values map[string]decimal.Decimal) []modelRow {
	models := slices.Clone(f.models)
	slices.SortStableFunc(models, func(a, b group) int { return b.all().Cmp(a.all()) })
	var rows []modelRow
	for _, m := range models {
		if m.all().IsZero() {
			continue
		}
		rows = append(rows, modelRow{
			Name: named(m.values[0]), Capacity: gpuHours(m.all()), Held: gpuHours(m.held()),
			HeldShare: percent(m.held(), m.all()),
			IdleShare: percent(m.of(idle), m.held()), Free: gpuHours(m.of(free)), Stranded: gpuHours(m.of(stranded)),
			Unhealthy: gpuHours(m.of(unhealthy)), Unobserved: gpuHours(m.of(unobserved)),
			Value: number(values[m.values[0]], f.places),
		})
	}
	return rows
}

// wasteRows are the workloads with the most idle time.
func (f *fleetMonth) wasteRows() []topRow {
	var rows []topRow
	for _, g := range f.waste {
		row := newTopRow(g.hours, f.all, f.waste[0].of(idle))
		row.Bar = rowBar([]bucket{idle}, g.hours, f.waste[0].of(idle))
		row.Name, row.More = named(g.values[1]), visible(g.values[0])
		row.Path = tenantPath(f.period.String(), g.values[0])
		rows = append(rows, row)
	}
	return rows
}
