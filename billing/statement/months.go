package statement

import (
	"net/http"
	"slices"

	"github.com/gputally/gputally/billing/rating"
)

type monthsView struct{ Months []monthRow }

type monthRow struct {
	Title, Path, State string
	First, Last        string
}

// months is the index: every month of which some tenant's zone, or the platform's, has hours.
func (p *pages) months(r *http.Request) (*page, error) {
	ends, err := p.ends(r.Context())
	if err != nil {
		return nil, err
	}
	book, err := p.deps.Invoices.Book(r.Context())
	if err != nil {
		return nil, err
	}
	now := p.deps.Clock.Now()
	view := monthsView{}
	for _, period := range slices.Backward(rating.Periods(ends, book.Zones())) {
		from, to := period.Bounds(book.Zone)
		row := monthRow{
			Title: monthTitle(period), Path: fleetPath(period.String()), State: "over",
			First: instant(from, book.Zone), Last: instant(to, book.Zone),
		}
		switch {
		case now.Before(from):
			row.State = "not begun"
		case now.Before(to):
			row.State = "in progress"
		}
		view.Months = append(view.Months, row)
	}
	return &page{
		Status: http.StatusOK, Title: "Statements", Body: "months.html", View: view,
		Crumbs: []crumb{{"Months", ""}},
	}, nil
}
