package statement

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/store"
)

// monthsShown is how many months the trend has, the page's own included.
const monthsShown = 6

// statementView is a tenant's month.
type statementView struct {
	Tenant, Month      string
	Number, Status     string
	From, To, TimeZone string
	Cards              []card
	Notices            []string
	Split              *split
	Days, Months       *chart
	Waste              wasteView
	Workloads, Users   topView
	Bill               billView
	Notes              []noteView
	Hours, Total       string // of the invoice
	NetHours, Net      string // of the invoice and its notes
	DocumentPath       string // of the document as JSON; empty where no path leads there
}

// card is a figure of the summary.
type card struct{ Name, Value, More string }

// statement is the page of a tenant's month.
func (p *pages) statement(ctx context.Context, text, tenant string) (*page, error) {
	period, err := rating.ParsePeriod(text)
	if err != nil {
		return nil, errors.Join(errNoPage, err)
	}
	documents, err := p.deps.Invoices.Show(ctx, period.String(), tenant)
	if err != nil {
		return nil, err
	}
	bill, err := newBill(documents)
	if err != nil {
		return nil, fmt.Errorf("show statement of tenant %q in %s: %w", tenant, period, err)
	}
	used, err := p.tenantUsage(ctx, period, tenant, bill)
	if err != nil {
		return nil, err
	}
	before, err := p.lastMonth(ctx, period, tenant)
	if err != nil {
		return nil, err
	}
	view := newStatementView(period, bill, used)
	view.Cards = statementCards(bill, used, before)
	view.Notices = p.notices(bill, used)
	month := monthTitle(period)
	return &page{
		Status: http.StatusOK, Title: "Statement for " + isolated(tenant) + ", " + month, Body: "statement.html", View: view,
		Crumbs: []crumb{{"Months", Path}, {month, fleetPath(period.String())}, {visible(tenant), ""}},
		Foot:   p.documentFacts(documents), Paper: visible(documents[0].Number) + ", " + documents[0].Status,
	}, nil
}

// tenantUsage is what the ledger says of a tenant's month.
type tenantUsage struct {
	days, months []column
	month        hours
	workloads    []group
	users        []group
	episodes     []episode
	episodeSums  []episodeSum
}

func (p *pages) tenantUsage(ctx context.Context, period rating.Period, tenant string, b *bill) (*tenantUsage, error) {
	s := scope{from: b.from, to: b.to, tenant: tenant}
	trend := s
	trend.from = period.Before(monthsShown - 1).Hours(b.zone)[0]
	byHour, err := p.groups(ctx, "hours", trend)
	if err != nil {
		return nil, err
	}
	used := &tenantUsage{}
	if used.days, used.months, err = columnsOf(byHour, period, b.zone); err != nil {
		return nil, err
	}
	for _, day := range used.days {
		used.month.add(day.hours)
	}
	if used.workloads, err = p.groups(ctx, "workloads", s); err != nil {
		return nil, err
	}
	if used.users, err = p.groups(ctx, "users", s); err != nil {
		return nil, err
	}
	if used.episodes, err = p.episodes(ctx, s); err != nil {
		return nil, err
	}
	used.episodeSums, err = p.episodeSums(ctx, s)
	return used, err
}

// lastMonth is the bill of the month before; nil where there is none, or none
// that can be rated. Only a store that is away is an error.
func (p *pages) lastMonth(ctx context.Context, period rating.Period, tenant string) (*bill, error) {
	documents, err := p.deps.Invoices.Show(ctx, period.Before(1).String(), tenant)
	if err != nil {
		if store.Retryable(err) || ctx.Err() != nil {
			return nil, err
		}
		return nil, nil
	}
	return newBill(documents)
}

// columnsOf sums hours into the days of a month and into months up to it, in a
// zone. Days and months without usage are there, and empty.
func columnsOf(byHour []group, period rating.Period, zone *time.Location) (days, months []column, err error) {
	dayAt, monthAt := map[string]int{}, map[string]int{}
	for _, hour := range period.Hours(zone) {
		local := hour.In(zone)
		key := local.Format(time.DateOnly)
		if _, known := dayAt[key]; known {
			continue
		}
		dayAt[key] = len(days)
		days = append(days, column{label: local.Format("2"), long: local.Format("Mon 2 Jan"), minor: len(days)%5 != 0})
	}
	for back := monthsShown - 1; back >= 0; back-- {
		month := period.Before(back)
		monthAt[month.String()] = len(months)
		months = append(months, column{label: month.Month.String()[:3], long: monthTitle(month)})
	}
	for _, g := range byHour {
		at, err := time.Parse(time.RFC3339, g.values[0])
		if err != nil {
			return nil, nil, fmt.Errorf("read usage by hour: %w", err)
		}
		if i, ok := monthAt[rating.PeriodOf(at, zone).String()]; ok {
			months[i].hours.add(g.hours)
		}
		if i, ok := dayAt[at.In(zone).Format(time.DateOnly)]; ok {
			days[i].hours.add(g.hours)
		}
	}
	return days, months, nil
}

func newStatementView(period rating.Period, b *bill, used *tenantUsage) *statementView {
	document := b.documents[0]
	view := &statementView{
		Tenant: visible(document.Tenant), Month: monthTitle(period), Number: visible(document.Number),
		Status: document.Status,
		From:   instant(b.from, b.zone), To: instant(b.to, b.zone), TimeZone: zoneTitle(b.zone),
		Split:     newSplit("split", "Where the time went", heldBuckets, used.month, nil),
		Days:      newChart("days", "GPU-hours by day", "Day", heldBuckets, used.days),
		Months:    newChart("months", "GPU-hours by month", "Month", heldBuckets, used.months),
		Waste:     newWaste(used.month, b, used.episodes, used.episodeSums),
		Workloads: newTop(used.workloads, used.month),
		Users:     newTop(used.users, used.month),
		Bill:      newBillView(b), Notes: newNotes(b),
		Hours: gpuHours(document.GPUHours.Decimal), Total: b.money(b.total()), NetHours: gpuHours(b.gpuHours()),
		Net:          b.money(b.net()),
		DocumentPath: documentPath(document),
	}
	return view
}

func statementCards(b *bill, used *tenantUsage, before *bill) []card {
	total := card{Name: b.name(), Value: b.money(b.total())}
	switch {
	case len(b.documents) > 1:
		total = card{Name: "Total with notes", Value: b.money(b.net()), More: b.name() + " " + b.money(b.total())}
	case before != nil && before.currency == b.currency:
		total.More = change(b.net(), before.net()) + " (" + before.money(before.net()) + ")"
	}
	held := used.month.held()
	waste := b.idleCost()
	return []card{
		total,
		{Name: "GPU-hours", Value: gpuHours(held), More: "of whole GPUs, held by this tenant"},
		{Name: "Idle", Value: percent(used.month.of(idle), held), More: gpuHours(used.month.of(idle)) + " GPU-hours, " +
			b.money(waste)},
		energyCard(used.month),
	}
}

func energyCard(h hours) card {
	if h.energyMJ.IsZero() {
		return card{Name: "Energy", Value: "–", More: "none was measured"}
	}
	return card{Name: "Energy", Value: kilowattHours(h.energyMJ), More: "by the GPUs' own counters"}
}

// change is how an amount moved since the month before.
func change(now, before decimal.Decimal) string {
	switch {
	case now.Equal(before):
		return "as in the month before"
	case !before.IsPositive(), now.GreaterThan(before.Mul(decimal.NewFromInt(10))):
		return "after the month before"
	}
	moved := percent(now.Sub(before).Abs(), before)
	if now.LessThan(before) {
		return moved + " less than in the month before"
	}
	return moved + " more than in the month before"
}

// notices are what a reader must know before the figures.
func (p *pages) notices(b *bill, used *tenantUsage) []string {
	var notices []string
	if b.draft() {
		notices = append(notices, "This is a draft, not an invoice. "+
			"It is made anew from the ledger each time it is opened, and can still change.")
	}
	if left := b.documents[0].Quarantined; left != "" {
		notices = append(notices, "This draft can't be finalised: "+visible(left)+".")
	}
	notices = append(notices, p.unfinished(b.from, b.to, b.zone)...)
	if !b.draft() && !b.stillSays(used.month) {
		notices = append(notices, fmt.Sprintf("The ledger has changed since this was billed: it now has %s GPU-hours, "+
			"%s of them idle; billed were %s, %s of them idle. The charts show the ledger as it stands. "+
			"A credit or debit note puts it right.",
			gpuHours(used.month.held()), gpuHours(used.month.of(idle)), gpuHours(b.held().held()), gpuHours(b.held().of(idle))))
	}
	return notices
}

// unfinished says that a month still goes on, or has not begun.
func (p *pages) unfinished(from, to time.Time, zone *time.Location) []string {
	switch now := p.deps.Clock.Now(); {
	case now.Before(from):
		return []string{"The month has not begun: it begins on " + instant(from, zone) + "."}
	case now.Before(to):
		return []string{"The month is not over: it ends on " + instant(to, zone) + "."}
	}
	return nil
}

// documentFacts are those of the invoice or draft; the decisions' head is that
// after the last document.
func (p *pages) documentFacts(documents []invoice.Invoice) []fact {
	document := documents[0]
	facts := []fact{
		{"Number", visible(document.Number), false},
		{"Status", document.Status, false},
		{"Usage, SHA-256", document.UsageHash, true},
		{"Price book, SHA-256", document.PriceHash, true},
	}
	if p.deps.Head == nil {
		return facts
	}
	if head := p.deps.Head(documents[len(documents)-1].Number); head != "" {
		facts = append(facts, fact{"Decisions, offset = chain", head, true})
	}
	return facts
}
