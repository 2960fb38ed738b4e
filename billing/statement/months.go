package statement

import (
	"net/http"
	"slices"
	"time"

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
	var ends []time.Time
	for _, s := range spans {
		ends = append(ends, s.first, s.last)
	}
	for _, period := range slices.Backward(rating.Periods(ends, book.Zones())) {
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
	return &page{
		Status: http.StatusOK, Title: "Statements", Body: "months.html", View: view,
		Crumbs: []crumb{{"Months", ""}},
	}, nil
}
