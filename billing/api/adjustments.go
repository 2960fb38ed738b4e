package api

import (
	"context"

	"github.com/gputally/gputally/billing/invoice"
)

type adjustmentsInput struct {
	Paged
	Period string `query:"period" required:"true" pattern:"^(197[1-9]|19[89][0-9]|20[0-9][0-9]|210[0-5])-(0[1-9]|1[0-2])$" doc:"Calendar month" example:"2026-10"`
	Tenant string `query:"tenant" maxLength:"500" doc:"Only this tenant's" example:"ml-train"`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Adjustments of a page, at most"`
}

type adjustmentsBody struct {
	Adjustments []invoice.Adjustment `json:"adjustments" nullable:"false"`
	Next        string               `json:"next,omitempty" doc:"Cursor of the next page; absent on the last"`
}

func adjustmentKey(of *invoice.Adjustment) []string { return []string{of.Note.Tenant} }

// listAdjustments are the notes that would be decided now: invoices of a month
// whose usage in the ledger is another one by now.
func (a *api) listAdjustments(ctx context.Context, in *adjustmentsInput) (*list[adjustmentsBody], error) {
	found, err := a.deps.Register.Adjustments(ctx, in.Period)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	pending := []invoice.Adjustment{}
	for i := range found {
		if in.Tenant == "" || found[i].Note.Tenant == in.Tenant {
			pending = append(pending, found[i])
		}
	}
	page := pick(&in.Paged, in.Limit, pending, adjustmentKey)
	return &list[adjustmentsBody]{Link: page.link, Body: adjustmentsBody{Adjustments: page.items, Next: page.next}}, nil
}
