package app

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/api"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/projection"
	"github.com/gputally/gputally/cmd/gputally/listprice"
	"github.com/gputally/gputally/ingest/explain"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/clock"
)

// explain answers the finance API's question as the command prints it for scripts.
func (p *Pipeline) explain(ctx context.Context, q *api.Explanation, hour time.Time) (any, error) {
	request := explain.Request{
		GPU: q.GPU, Pod: q.Pod, Job: q.Job, Hour: hour, Cluster: q.Cluster, Leaf: q.Leaf, Tenant: q.Tenant, All: q.All,
	}
	e, err := explain.Explain(ctx, p.finance, request)
	if err != nil {
		return nil, err
	}
	book, err := p.Register.Book(ctx)
	if err != nil {
		return nil, err
	}
	return listprice.Explanation{Explanation: e, Price: listprice.Of(book, e, request)}, nil
}

// ListRates gives the analyzer the list prices of the book in force.
type ListRates struct{ InForce func() *prices.Book }

// GPUHour is the model's list rate in the version in force at hour.
func (r ListRates) GPUHour(model string, hour time.Time) (rate decimal.Decimal, currency string, ok bool) {
	book := r.InForce()
	i := book.At(hour)
	if i < 0 {
		return rate, "", false
	}
	m, ok := book.Versions[i].Models[model]
	return m.GPUHour, book.Currency, ok
}

// Book is the price book in force, as ClickHouse knows it: the one published
// last, else the configured one.
func (a *Access) Book(ctx context.Context) (*prices.Book, error) {
	published, err := projection.BookInForce(ctx, a.DB)
	if err != nil || published != nil {
		return published, err
	}
	configured, err := a.Config.Billing.Book()
	if err != nil {
		return nil, cli.UsageError(err)
	}
	return configured, nil
}

// bookLook is how often a service without the decisions looks for a new book.
const bookLook = time.Minute

// startRates gives the list rates of the book in force: where this process
// reads no decisions, of the one that ClickHouse knew a minute ago.
func (p *Pipeline) startRates(ctx context.Context) (ListRates, error) {
	if p.Register != nil {
		return ListRates{InForce: p.Register.Known}, nil
	}
	var known atomic.Pointer[prices.Book]
	book, err := p.Access.Book(ctx)
	if err != nil {
		return ListRates{}, err
	}
	known.Store(book)
	p.Group.Go("price book", func(ctx context.Context) error {
		for clock.Sleep(ctx, p.Session.Clock, bookLook) == nil {
			book, err := p.Access.Book(ctx)
			if err != nil {
				p.Session.Log.Warn("the price book in force can't be read, the last one counts", "error", err)
				continue
			}
			known.Store(book)
		}
		return nil
	})
	return ListRates{InForce: known.Load}, nil
}
