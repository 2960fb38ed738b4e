package statement

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/billing/invoice"
	"github.com/gpuledger/gpuledger/billing/rating"
	"github.com/gpuledger/gpuledger/internal/store"
)

// errNoPage is a path, or a month, that is none.
var errNoPage = errors.New("no such page")

// problemView is the page of what went wrong.
type problemView struct {
	Title string
	Text  []string
	// Models are those without a rate.
	Models []missingModel
}

type missingModel struct{ Model, Hour, Version, Book string }

// problem turns an error into its page. What a reader can mend is told; the
// rest is logged, and kept from them.
func (p *pages) problem(ctx context.Context, err error) *page {
	var before *rating.BeforeBookError
	var violation *invoice.ViolationError
	missing := missingModels(err)
	switch {
	case errors.Is(err, errNoPage):
		return problemPage(http.StatusNotFound, problemView{
			Title: "No such page",
			Text:  []string{"A month is written like 2026-10, and its page is at /statements/2026-10."},
		})
	case errors.Is(err, invoice.ErrNotFound):
		return problemPage(http.StatusNotFound, problemView{
			Title: "No such statement",
			Text:  []string{"Nobody of this name used GPUs in this month or owes anything for it. The month's page lists all tenants that have a statement."},
		})
	case len(missing) > 0:
		return problemPage(http.StatusConflict, problemView{
			Title: "A price is missing", Models: missing,
			Text: []string{"There is usage in this month that the price book has no rate for, so there are no statements of it. Usage itself is not affected: once the price is there, so is this page."},
		})
	case errors.As(err, &before):
		return problemPage(http.StatusConflict, problemView{
			Title: "The price book begins too late",
			Text:  []string{"The first hour with usage is " + instant(before.Hour, time.UTC) + ". " + visible(before.Book) + " begins on " + instant(before.Start, time.UTC) + ": it needs a version that is effective by then."},
		})
	}
	if !cancelled(ctx) {
		p.deps.Log.ErrorContext(ctx, "statement page failed", "err", err)
	}
	switch {
	case errors.As(err, &violation):
		return problemPage(http.StatusInternalServerError, problemView{
			Title: "The figures do not add up",
			Text:  []string{"Every statement is checked before it is shown, and this month's contradict each other. Nothing is shown rather than something wrong. The platform team finds out more with gpuledger verify."},
		})
	case store.Retryable(err):
		return problemPage(http.StatusServiceUnavailable, problemView{
			Title: "The ledger is away",
			Text:  []string{"The database that keeps usage does not answer at the moment. Nothing is lost. Load the page again in a minute."},
		})
	}
	return problemPage(http.StatusInternalServerError, problemView{
		Title: "This page could not be made",
		Text:  []string{"The service's log says why."},
	})
}

func problemPage(status int, view problemView) *page {
	return &page{
		Status: status, Title: view.Title, Body: "problem.html", View: view,
		Crumbs: []crumb{{"Months", Path}, {view.Title, ""}},
	}
}

// missingModels are all models without a rate in a tree of errors, by name.
func missingModels(err error) []missingModel {
	var found []missingModel
	var look func(error)
	look = func(err error) {
		if missing, ok := err.(*rating.MissingModelError); ok { //nolint:errorlint // each one of a joined error
			found = append(found, missingModel{
				visible(missing.Model), instant(missing.Hour, time.UTC), instant(missing.Version, time.UTC), visible(missing.Book),
			})
		}
		switch parent := err.(type) { //nolint:errorlint // the tree itself
		case interface{ Unwrap() error }:
			look(parent.Unwrap())
		case interface{ Unwrap() []error }:
			for _, child := range parent.Unwrap() {
				look(child)
			}
		}
	}
	look(err)
	slices.SortFunc(found, func(a, b missingModel) int { return strings.Compare(a.Model, b.Model) })
	return found
}
