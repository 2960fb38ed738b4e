package api

import (
	"context"
	"fmt"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/internal/decisions"
)

// PeriodInPath is a month in the supported years.
type PeriodInPath struct {
	Period string `path:"period" pattern:"^(197[1-9]|19[89][0-9]|20[0-9][0-9]|210[0-5])-(0[1-9]|1[0-2])$" doc:"Calendar month in the tenant's zone" example:"2026-10"`
}

type listInvoicesInput struct {
	Paged
	Period string `query:"period" pattern:"^(197[1-9]|19[89][0-9]|20[0-9][0-9]|210[0-5])-(0[1-9]|1[0-2])$" doc:"Calendar month. Without it, documents of all months are listed, but no drafts, which are computed by month" example:"2026-10"`
	Tenant string `query:"tenant" maxLength:"500" doc:"Only of this tenant" example:"ml-train"`
	Status string `query:"status" enum:"draft,finalised" doc:"Only documents of this status. finalised is fast, because no draft is computed" example:"finalised"`
	Kind   string `query:"kind" enum:"invoice,credit_note,debit_note" doc:"Only documents of this kind" example:"invoice"`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Maximum number of documents on a page"`
}

func (in *listInvoicesInput) wants(of *summary) bool {
	return (in.Period == "" || of.Period == in.Period) && (in.Tenant == "" || of.Tenant == in.Tenant) &&
		(in.Status == "" || of.Status == in.Status) && (in.Kind == "" || of.Kind == in.Kind)
}

type invoicesBody struct {
	Invoices []summary `json:"invoices" nullable:"false"`
	Next     string    `json:"next,omitempty" doc:"Cursor of the next page; absent on the last page"`
}

// summary is a document without its lines.
type summary struct {
	Number    string    `json:"number" example:"2026-10-ml-train-r0"`
	Kind      string    `json:"kind" enum:"invoice,credit_note,debit_note"`
	Status    string    `json:"status" enum:"draft,finalised"`
	Tenant    string    `json:"tenant"`
	Period    string    `json:"period"`
	Revision  int       `json:"revision"`
	TimeZone  string    `json:"time_zone"`
	From      string    `json:"from" format:"date-time"`
	To        string    `json:"to" format:"date-time"`
	GPUHours  string    `json:"gpu_hours"`
	Currency  string    `json:"currency"`
	Total     string    `json:"total" doc:"Total; of a note, the difference to what was billed before"`
	PriceBook string    `json:"price_book_sha256"`
	Corrects  string    `json:"corrects,omitempty" doc:"Notes only: number of the previous revision"`
	Reason    string    `json:"reason,omitempty" doc:"Notes only: reason of the correction"`
	BilledIn  string    `json:"billed_in,omitempty" doc:"Notes only: month in which the difference is billed"`
	Content   string    `json:"content_sha256" doc:"SHA-256 of the document; of a draft, of the document that would be finalised now. The value for If-Match"`
	Decision  *decision `json:"decision,omitempty" doc:"The decision that finalised the document; absent in drafts"`
}

// decision is who decided a document, and when.
type decision struct {
	Offset  int64  `json:"offset" doc:"Offset of the decision in the log"`
	Who     string `json:"who"`
	At      string `json:"at" format:"date-time" doc:"By the broker's clock"`
	Content string `json:"content_sha256" doc:"SHA-256 of the document; also its ETag"`
	Usage   string `json:"usage_sha256" doc:"SHA-256 of the document's copy of usage"`
	Head    string `json:"head" doc:"OFFSET=CHAIN of the audit hash chain after this decision. Keep it to find out later, with gputally audit --expect, whether anything up to there was changed"`
}

func (s *summary) key() []string { return []string{s.Period, s.Tenant, revisionKey(s.Revision)} }

func revisionKey(revision int) string { return fmt.Sprintf("%09d", revision) }

func draftSummary(of *invoice.Invoice) summary {
	return summary{
		Number: of.Number, Kind: of.Kind, Status: of.Status, Tenant: of.Tenant, Period: of.Period, Revision: of.Revision,
		TimeZone: of.TimeZone, From: rfc3339(of.From), To: rfc3339(of.To), GPUHours: of.GPUHours.String(),
		Currency: of.Currency, Total: of.Total.String(), PriceBook: of.PriceHash, Content: of.Content,
	}
}

func (a *api) decidedSummary(of *decisions.Decided[decisions.Invoice]) summary {
	body := &of.Body
	return summary{
		Number: body.Number, Kind: body.Kind, Status: invoice.StatusFinalised, Tenant: body.Tenant, Period: body.Period,
		Revision: body.Revision, TimeZone: body.TimeZone, From: rfc3339(body.From), To: rfc3339(body.To),
		GPUHours: body.GPUHours, Currency: body.Currency, Total: body.Total, PriceBook: body.PriceBook,
		Corrects: body.Corrects, Reason: body.Reason, BilledIn: body.BilledIn, Content: body.Content.SHA256,
		Decision: &decision{
			Offset: of.Offset, Who: of.Who, At: rfc3339(of.Appended), Content: body.Content.SHA256,
			Usage: body.Usage.SHA256, Head: a.deps.Register.Head(body.Number),
		},
	}
}

func (a *api) listInvoices(ctx context.Context, in *listInvoicesInput) (*list[invoicesBody], error) {
	if in.Period == "" && in.Status == invoice.StatusDraft {
		return nil, invalid("query.period", "", "drafts are recomputed a month at a time: name one")
	}
	all, err := a.summaries(ctx, in)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	page := pick(&in.Paged, in.Limit, all, (*summary).key)
	return &list[invoicesBody]{Link: page.link, Body: invoicesBody{Invoices: page.items, Next: page.next}}, nil
}

// summaries returns documents by period, tenant and revision. The month is rated only if drafts are wanted, whose
// kind is always invoice.
func (a *api) summaries(ctx context.Context, in *listInvoicesInput) ([]summary, error) {
	decided, err := a.decidedSummaries(ctx)
	if err != nil {
		return nil, err
	}
	all := []summary{}
	onlyDecided := in.Period == "" || in.Status == invoice.StatusFinalised ||
		in.Kind != "" && in.Kind != invoice.KindInvoice
	if onlyDecided {
		for i := range decided {
			if in.wants(&decided[i]) {
				all = append(all, decided[i])
			}
		}
		return all, nil
	}
	month, err := a.deps.Register.List(ctx, in.Period)
	if err != nil {
		return nil, err
	}
	byNumber := map[string]summary{}
	for _, one := range decided {
		byNumber[one.Number] = one
	}
	for i := range month.Invoices {
		one, ok := byNumber[month.Invoices[i].Number]
		if !ok || month.Invoices[i].Status == invoice.StatusDraft {
			one = draftSummary(&month.Invoices[i])
		}
		if in.wants(&one) {
			all = append(all, one)
		}
	}
	return all, nil
}

// decidedSummaries returns all decided documents.
func (a *api) decidedSummaries(ctx context.Context) ([]summary, error) {
	if err := a.deps.Decisions.Refresh(ctx); err != nil {
		return nil, err
	}
	var decided []decisions.Decided[decisions.Invoice]
	a.deps.Decisions.View(func(state *decisions.State) { decided = state.Invoices() })
	all := make([]summary, len(decided))
	for i := range decided {
		all[i] = a.decidedSummary(&decided[i])
	}
	return all, nil
}

type showDraftInput struct {
	PeriodInPath
	Tenant string `path:"tenant" minLength:"1" maxLength:"500" doc:"Name of the tenant, as in usage" example:"ml-serve"`
}

type draftOutput struct {
	ETag string `header:"ETag"`
	Body draftBody
}

type draftBody struct {
	invoice.Invoice
	Content string `json:"content_sha256" doc:"SHA-256 of the document that would be finalised now; also the ETag and the value for If-Match"`
}

func (a *api) showDraft(ctx context.Context, in *showDraftInput) (*draftOutput, error) {
	documents, err := a.deps.Register.Show(ctx, in.Period, in.Tenant)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	if documents[0].Status != invoice.StatusDraft {
		return nil, a.problem(ctx, fmt.Errorf("show draft of tenant %q in %s: %w as a draft, %s is finalised", in.Tenant,
			in.Period, invoice.ErrNotFound, documents[0].Number))
	}
	return &draftOutput{ETag: `"` + documents[0].Content + `"`, Body: draftBody{documents[0], documents[0].Content}}, nil
}

type platformBody struct {
	Period   string `json:"period"`
	Currency string `json:"currency"`
	invoice.Platform
}

func (a *api) showPlatform(ctx context.Context, in *PeriodInPath) (*answer[platformBody], error) {
	month, err := a.deps.Register.List(ctx, in.Period)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &answer[platformBody]{platformBody{
		Period: month.Period, Currency: month.Currency,
		Platform: month.Platform,
	}}, nil
}
