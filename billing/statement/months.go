package statement

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
)

type monthsView struct{ Months []monthRow }

type monthRow struct {
	Title, Path, State string
	First, Last        string
}

// months is the index: every month that some tenant's zone, or the platform's,
// has hours of.
func (p *pages) months(r *http.Request) (*page, error) {
	spans, err := p.spans(r.Context())
	if err != nil {
		return nil, err
	}
	book, err := p.deps.Invoices.Book(r.Context())
	if err != nil {
		return nil, err
	}
	now := p.deps.Clock.Now()
	view := monthsView{}
	for _, period := range periodsOf(spans, zonesOf(book)) {
		hours := period.Hours(book.Zone)
		row := monthRow{
			Title: monthTitle(period), Path: fleetPath(period.String()), State: "over",
			First: instant(hours[0], book.Zone), Last: instant(hours[len(hours)-1].Add(time.Hour), book.Zone),
		}
		switch {
		case now.Before(hours[0]):
			row.State = "not begun"
		case now.Before(hours[len(hours)-1].Add(time.Hour)):
			row.State = "in progress"
		}
		view.Months = append(view.Months, row)
	}
	return &page{Status: http.StatusOK, Title: "Statements", Body: "months.html", View: view, Crumbs: []crumb{{"Months", ""}}}, nil
}

// periodsOf are the months, in any of the zones, that the spans reach into,
// newest first.
func periodsOf(spans []span, zones []*time.Location) []rating.Period {
	seen := map[rating.Period]bool{}
	var periods []rating.Period
	for _, s := range spans {
		for _, zone := range zones {
			for _, at := range []time.Time{s.first, s.last} {
				if period := rating.PeriodOf(at, zone); !seen[period] {
					seen[period] = true
					periods = append(periods, period)
				}
			}
		}
	}
	slices.SortFunc(periods, func(a, b rating.Period) int {
		return cmp.Or(cmp.Compare(b.Year, a.Year), cmp.Compare(b.Month, a.Month))
	})
	return periods
}

func zonesOf(book *prices.Book) []*time.Location {
	zones := []*time.Location{book.Zone}
	for _, zone := range book.TenantZones {
		zones = append(zones, zone)
	}
	return zones
}
