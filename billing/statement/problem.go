package statement

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/store"
)

// errNoPage means that the path or the month is invalid.
var errNoPage = errors.New("no such page")

// problemView is an error page.
type problemView struct {
	Title, Text string
}

// problem converts an error to its page. Errors that a reader can fix are shown; the others are only logged.
func (p *pages) problem(ctx context.Context, err error) *page {
	var before *rating.BeforeBookError
	var violation *invoice.ViolationError
	switch {
	case errors.Is(err, errNoPage):
		return problemPage(http.StatusNotFound, "No such page",
			"A month is written like 2026-10, and its page is at /statements/2026-10.")
	case errors.Is(err, invoice.ErrNotFound):
		return problemPage(http.StatusNotFound, "No such statement",
			"No tenant of this name used GPUs in this month or owes anything for it. "+
				"The month's page lists all tenants that have a statement.")
	case errors.As(err, &before):
		return problemPage(http.StatusConflict, "The price book begins too late",
			"The first hour with usage is "+instant(before.Hour, time.UTC)+". "+visible(before.Book)+
				" begins on "+instant(before.Start, time.UTC)+": it needs a version that is effective by then.")
	}
	if !cancelled(ctx) {
		p.deps.Log.ErrorContext(ctx, "statement page failed", "err", err)
	}
	switch {
	case errors.As(err, &violation):
		return problemPage(http.StatusInternalServerError, "The figures do not add up",
			"Statements are checked before they are shown, and the figures of this month contradict each other. "+
				"So no statement is shown. The platform team finds the contradiction with gputally verify.")
	case store.Retryable(err):
		return problemPage(http.StatusServiceUnavailable, "The database is unavailable",
			"The database with the usage does not answer. No data is lost. Reload the page in a minute.")
	}
	return problemPage(http.StatusInternalServerError, "The page could not be generated",
		"The service's log has the reason.")
}

func problemPage(status int, title, text string) *page {
	return &page{
		Status: status, Title: title, Body: "problem.html", View: problemView{title, text},
		Crumbs: []crumb{{"Months", Path}, {title, ""}},
	}
}
