package ask

import (
	"context"
	"math/big"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/analyzer"
	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/fault"
	"github.com/gputally/gputally/internal/plural"
	"github.com/gputally/gputally/internal/usage"
)

// IdleTime prints each tenant's idle time of a month: in findings, in none, and on the invoice with its notes. It fails
// if findings and rest differ from an invoice by more than half a minor unit of currency.
func IdleTime(ctx context.Context, s *cli.Session) error {
	return app.WithRegister(ctx, s, func(p *app.Pipeline) error {
		book, err := p.Access.Book(ctx)
		if err != nil {
			return err
		}
		month, err := p.Register.List(ctx, s.Month.Text)
		if err != nil {
			return err
		}
		var tenants []string
		for i := range month.Invoices {
			tenants = append(tenants, month.Invoices[i].Tenant)
		}
		documents := map[string][]invoice.Invoice{}
		var from, to time.Time
		for _, tenant := range tenants {
			of, err := p.Register.Show(ctx, s.Month.Text, tenant)
			if err != nil {
				return err
			}
			documents[tenant] = of
			if from.IsZero() || of[0].From.Before(from) {
				from = of[0].From
			}
			if of[0].To.After(to) {
				to = of[0].To
			}
		}
		if len(tenants) == 0 {
			return app.SayNothing(ctx, s, p.Access, "in "+s.Month.Text)
		}
		rates := app.ListRates{InForce: func() *prices.Book { return book }}
		idle, err := analyzer.Idle(ctx, p.Access.DB, p.Config.Analyzer, rates, from, to,
			func(tenant string) (from, to time.Time) {
				if of := documents[tenant]; of != nil {
					return of[0].From, of[0].To
				}
				return from, from // not billed: no time
			})
		if err != nil {
			return err
		}
		return printIdle(s, tenants, documents, idle, book)
	})
}

func printIdle(s *cli.Session, tenants []string, documents map[string][]invoice.Invoice,
	idle map[string]*analyzer.IdleTime, book *prices.Book,
) error {
	t := cli.Table{Columns: cli.Columns("tenant", "found_gpu_hours exact", "rest_gpu_hours exact", "found_cost exact",
		"rest_cost exact", "invoice_idle exact", "difference exact", "currency")}
	half := decimal.New(5, -book.MinorUnit-1)
	wrong := 0
	for _, tenant := range tenants {
		of := idle[tenant]
		if of == nil {
			of = &analyzer.IdleTime{}
		}
		billed := idleLines(documents[tenant])
		minus := func(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }
		difference := decimal.NewFromBigRat(minus(&of.All.Cost, billed.Rat()), 18)
		if difference.Abs().GreaterThan(half) {
			wrong++
		}
		text := func(r *big.Rat) string { return decimal.NewFromBigRat(r, 9).String() }
		t.Rows = append(t.Rows, []string{
			ShownTenant(usage.KindOwner, tenant), text(&of.Found.GPUHours), text(minus(&of.All.GPUHours, &of.Found.GPUHours)),
			text(&of.Found.Cost), text(minus(&of.All.Cost, &of.Found.Cost)), billed.String(), difference.Round(9).String(),
			book.Currency,
		})
	}
	if err := s.Print(t); err != nil {
		return err
	}
	if wrong > 0 {
		return fault.New(fault.Conflict, "idle time of %s differs from the invoices: a later price book or ledger than "+
			"the invoice's counts here; gputally invoice adjustments tells which", plural.Of(wrong, "tenant"))
	}
	return nil
}

// idleLines is the value of idle time on a tenant's documents of a month: list value, profile price and surcharge.
func idleLines(documents []invoice.Invoice) (sum decimal.Decimal) {
	for i := range documents {
		for _, line := range documents[i].Lines {
			switch line.Effect {
			case rating.EffectList, rating.EffectProfile, rating.EffectIdleSurcharge:
				if line.Bucket == "idle" {
					sum = sum.Add(line.Amount.Decimal)
				}
			}
		}
	}
	return sum
}
