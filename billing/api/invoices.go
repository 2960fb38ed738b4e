package api

import (
	"context"
	"fmt"

	"github.com/gpuledger/gpuledger/billing/invoice"
	"github.com/gpuledger/gpuledger/billing/prices"
)

// PeriodInPath is a month in the years that can be asked for.
type PeriodInPath struct {
	Period string `path:"period" pattern:"^(19[7-9][0-9]|20[0-9][0-9]|210[0-5])-(0[1-9]|1[0-2])$" doc:"Calendar month in the tenant's zone" example:"2026-10"`
}

type listInvoicesInput struct {
	Paged
	Period string `query:"period" required:"true" pattern:"^(19[7-9][0-9]|20[0-9][0-9]|210[0-5])-(0[1-9]|1[0-2])$" doc:"Calendar month" example:"2026-10"`
	Tenant string `query:"tenant" maxLength:"500" doc:"Only this tenant's" example:"ml-train"`
	Status string `query:"status" enum:"draft,finalised" doc:"Only documents of this status"`
	Kind   string `query:"kind" enum:"invoice,credit_note,debit_note" doc:"Only documents of this kind"`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Documents of a page, at most"`
}

func (in *listInvoicesInput) wants(of *summary) bool {
	return (in.Tenant == "" || of.Tenant == in.Tenant) && (in.Status == "" || of.Status == in.Status) && (in.Kind == "" || of.Kind == in.Kind)
}

type invoicesOutput struct {
	Link string `header:"Link"`
	Body invoicesBody
}

type invoicesBody struct {
	Invoices []summary `json:"invoices" nullable:"false"`
	Next     string    `json:"next,omitempty" doc:"Cursor of the next page; absent on the last"`
}

// summary is a document without its lines.
type summary struct {
	Number   string `json:"number"`
	Kind     string `json:"kind" enum:"invoice,credit_note,debit_note"`
	Status   string `json:"status" enum:"draft,finalised"`
	Tenant   string `json:"tenant"`
	Period   string `json:"period"`
	Revision int    `json:"revision"`
	TimeZone string `json:"time_zone"`
	From     string `json:"from" format:"date-time"`
	To       string `json:"to" format:"date-time"`
	GPUHours string `json:"gpu_hours"`
	Currency string `json:"currency"`
	Total    string `json:"total"`
	Corrects string `json:"corrects,omitempty" doc:"A note's: number of the revision before"`
	Reason   string `json:"reason,omitempty" doc:"A note's: why there is one"`
}

func (s *summary) key() []string {
	return []string{s.Period, s.Tenant, fmt.Sprintf("%09d", s.Revision)}
}

func summaryOf(of *invoice.Invoice) summary {
	return summary{
		Number: of.Number, Kind: of.Kind, Status: of.Status, Tenant: of.Tenant, Period: of.Period, Revision: of.Revision,
		TimeZone: of.TimeZone, From: of.From, To: of.To, GPUHours: of.GPUHours, Currency: of.Currency, Total: of.Total,
		Corrects: of.Corrects, Reason: of.Reason,
	}
}

func (a *api) listInvoices(ctx context.Context, in *listInvoicesInput) (*invoicesOutput, error) {
	month, err := a.deps.Invoices.List(ctx, in.Period)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	all := []summary{}
	for i := range month.Invoices {
		if one := summaryOf(&month.Invoices[i]); in.wants(&one) {
			all = append(all, one)
		}
	}
	page := pick(&in.Paged, in.Limit, all, (*summary).key)
	return &invoicesOutput{Link: page.link, Body: invoicesBody{Invoices: page.items, Next: page.next}}, nil
}

type showDraftInput struct {
	PeriodInPath
	Tenant string `path:"tenant" minLength:"1" maxLength:"500" doc:"Tenant as in usage" example:"ml-train"`
}

type draftOutput struct{ Body *invoice.Invoice }

func (a *api) showDraft(ctx context.Context, in *showDraftInput) (*draftOutput, error) {
	documents, err := a.deps.Invoices.Show(ctx, in.Period, in.Tenant)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	if documents[0].Status != invoice.StatusDraft {
		return nil, a.problem(ctx, fmt.Errorf("show draft: %s is finalised: %w", documents[0].Number, invoice.ErrNotFound))
	}
	return &draftOutput{&documents[0]}, nil
}

type showPlatformInput struct{ PeriodInPath }

type platformOutput struct{ Body platformBody }

type platformBody struct {
	Period   string `json:"period"`
	Currency string `json:"currency"`
	invoice.Platform
}

func (a *api) showPlatform(ctx context.Context, in *showPlatformInput) (*platformOutput, error) {
	month, err := a.deps.Invoices.List(ctx, in.Period)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &platformOutput{platformBody{Period: month.Period, Currency: month.Currency, Platform: month.Platform}}, nil
}

// drafts are the ledger's drafts; nothing is finalised.
type drafts struct{ *invoice.Drafts }

// FromDrafts serves drafts, recomputed for each answer.
func FromDrafts(d *invoice.Drafts) Invoices { return drafts{d} }

// Book is the configured price book.
func (d drafts) Book(context.Context) (*prices.Book, error) { return d.Drafts.Book(), nil }

// Show is the tenant's draft; a draft has no notes.
func (d drafts) Show(ctx context.Context, period, tenant string) ([]invoice.Invoice, error) {
	document, err := d.Drafts.Show(ctx, period, tenant)
	if err != nil {
		return nil, err
	}
	return []invoice.Invoice{*document}, nil
}
