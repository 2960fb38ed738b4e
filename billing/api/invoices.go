package api

import (
	"context"

	"github.com/gpuledger/gpuledger/billing/invoice"
	"github.com/gpuledger/gpuledger/billing/rating"
)

type listInvoicesInput struct {
	Period string `query:"period" required:"true" doc:"Calendar month" example:"2026-10"`
}

type monthOutput struct{ Body *invoice.Month }

func (a *api) listInvoices(ctx context.Context, in *listInvoicesInput) (*monthOutput, error) {
	if _, err := rating.ParsePeriod(in.Period); err != nil {
		return nil, invalid("query.period", in.Period, "want a month such as 2026-10")
	}
	month, err := a.deps.Drafts.List(ctx, in.Period)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &monthOutput{month}, nil
}

type showInvoiceInput struct {
	Period string `path:"period" doc:"Calendar month" example:"2026-10"`
	Tenant string `path:"tenant" doc:"Tenant as in usage" example:"ml-train"`
}

type invoiceOutput struct{ Body *invoice.Invoice }

func (a *api) showInvoice(ctx context.Context, in *showInvoiceInput) (*invoiceOutput, error) {
	if _, err := rating.ParsePeriod(in.Period); err != nil {
		return nil, invalid("path.period", in.Period, "want a month such as 2026-10")
	}
	shown, err := a.deps.Drafts.Show(ctx, in.Period, in.Tenant)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &invoiceOutput{shown}, nil
}
