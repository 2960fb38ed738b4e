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

// monthsShown is the number of months in the trend, including the page's own.
const monthsShown = 6

// statementMonth is a tenant's month.
type statementMonth struct {
	*bill
	*used
	before  *bill // of the month before; nil: none
	period  rating.Period
	Notices []string
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
	m := &statementMonth{bill: bill, period: period}
	since, _ := period.Before(monthsShown - 1).Bounds(bill.Zone)
	m.used, err = p.used(ctx, scope{bill.From, bill.To, tenant}, period, bill.Zone, since, "workloads", "users")
	if err != nil {
		return nil, err
	}
	if m.before, err = p.lastMonth(ctx, period, tenant); err != nil {
		return nil, err
	}
	m.Findings.Places, m.Notices = bill.Total.Places(), p.notices(m)
	return &page{
		Status: http.StatusOK, Title: "Statement for " + isolated(tenant) + ", " + m.Title(), Body: "statement.html", View: m,
		Crumbs: []crumb{{"Months", Path}, {m.Title(), fleetPath(period.String())}, {visible(tenant), ""}},
		Foot:   p.documentFacts(documents), Paper: visible(bill.Number) + ", " + bill.Status,
	}, nil
}

// lastMonth returns the bill of the month before; nil if there is none, or it can't be rated. Only an unavailable
// store is an error.
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

// columnsOf sums hours into the days of a month and into months up to it, in a zone. Days and months without usage
// are included.
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
		at, err := time.Parse(time.RFC3339, g.Values[0])
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

// Title names the month.
func (m *statementMonth) Title() string { return monthTitle(m.period) }

// Span is the month's range, with its zone.
func (m *statementMonth) Span() string { return spanText(m.From, m.To, m.Zone) }

// Split is the time by bucket.
func (m *statementMonth) Split() *split {
	return newSplit("split", "Time by bucket", heldBuckets, m.All, nil)
}

// Days and Months are charts.
func (m *statementMonth) Days() *chart {
	return newChart("days", "GPU-hours by day", "Day", heldBuckets, m.days)
}

// Months is the chart of the months up to this one.
func (m *statementMonth) Months() *chart {
	return newChart("months", "GPU-hours by month", "Month", heldBuckets, m.months)
}

// Workloads are those with the most usage.
func (m *statementMonth) Workloads() top {
	return newTop("Workloads", "Workload, and its project", m.groups["workloads"], m.All)
}

// Users are those with the most usage.
func (m *statementMonth) Users() top { return newTop("Users", "User", m.groups["users"], m.All) }

// DocumentPath is the path of the document as JSON; empty if there is none.
func (m *statementMonth) DocumentPath() string { return documentPath(*m.Invoice) }

// Cards are the summary's figures.
func (m *statementMonth) Cards() []card {
	total := card{Name: m.TotalName(), Value: m.Money(m.Total.Decimal)}
	switch before := m.before; {
	case len(m.documents) > 1:
		total = card{"Total with notes", m.Money(m.Net()), total.Name + " " + total.Value}
	case before != nil && before.Currency == m.Currency:
		total.More = change(m.Net(), before.Net()) + " (" + before.Money(before.Net()) + ")"
	}
	held, waste := m.All.Held(), m.All.Of(idle)
	return []card{
		total,
		{"GPU-hours", gpuHours(held), "of whole GPUs, held by this tenant"},
		{"Idle", percent(waste, held), gpuHours(waste) + " GPU-hours, " + m.Money(m.IdleCost())},
		energyCard(m.All),
	}
}

func energyCard(h hours) card {
	if h.energyMJ.IsZero() {
		return card{Name: "Energy", Value: "–", More: "none was measured"}
	}
	return card{Name: "Energy", Value: kilowattHours(h.energyMJ), More: "from the GPUs' energy counters"}
}

// change describes how an amount changed since the month before.
func change(now, before decimal.Decimal) string {
	switch {
	case now.Equal(before):
		return "same as the month before"
	case !before.IsPositive(), now.GreaterThan(before.Mul(decimal.NewFromInt(10))):
		return "compared with the month before"
	}
	moved := percent(now.Sub(before).Abs(), before)
	if now.LessThan(before) {
		return moved + " less than in the month before"
	}
	return moved + " more than in the month before"
}

// notices describe what a reader must know about the figures.
func (p *pages) notices(m *statementMonth) (notices []string) {
	if m.draft() {
		notices = append(notices, "This is a draft, not an invoice. "+
			"It is computed from the ledger each time it is opened, and can still change.")
	}
	if m.Quarantined != "" {
		notices = append(notices, "This draft can't be finalised: "+visible(m.Quarantined)+".")
	}
	notices = append(notices, p.unfinished(m.From, m.To, m.Zone)...)
	if billed := m.Held(); !m.draft() && !m.stillSays(m.All) {
		notices = append(notices, fmt.Sprintf("The ledger has changed since this was billed: it now has %s GPU-hours, "+
			"%s of them idle; billed were %s, %s of them idle. The charts show the ledger as it stands. "+
			"A credit or debit note corrects the invoice.",
			gpuHours(m.All.Held()), gpuHours(m.All.Of(idle)), gpuHours(billed.Held()), gpuHours(billed.Of(idle))))
	}
	return notices
}

// unfinished returns a notice if a month is in progress, or has not begun.
func (p *pages) unfinished(from, to time.Time, zone *time.Location) []string {
	switch now := p.deps.Clock.Now(); {
	case now.Before(from):
		return []string{"The month has not begun: it begins on " + instant(from, zone) + "."}
	case now.Before(to):
		return []string{"The month is not over: it ends on " + instant(to, zone) + "."}
	}
	return nil
}

// documentFacts are the facts about the invoice or draft; the decisions' head is that after the last document.
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
