package app

import (
	"context"
	"math/big"
	"sync/atomic"
	"time"

	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/billing/api"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/projection"
	"github.com/gputally/gputally/cmd/gputally/listprice"
	"github.com/gputally/gputally/ingest/explain"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions"
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

// ListRates gives the analyzer the prices of the book in force.
type ListRates struct{ InForce func() *prices.Book }

// GPUHour is what a GPU-hour costs the tenant in the version in force at the hour, before the terms of a month: the
// model's list rate, or the profile's own price, and the surcharge on idle time.
func (r ListRates) GPUHour(u *episode.Use) (rate *big.Rat, currency string, ok bool) {
	book := r.InForce()
	i := book.At(u.Hour)
	if i < 0 {
		return nil, "", false
	}
	version := &book.Versions[i]
	model, ok := version.Models[u.Model]
	if !ok {
		return nil, "", false
	}
	rate = model.GPUHour.Rat()
	if own, priced := model.Profiles[u.Profile]; priced && u.ProfileSlices > 0 {
		rate = own.Rat()
		rate.Mul(rate, big.NewRat(int64(max(u.Slices, 1)), int64(u.ProfileSlices)))
	}
	if u.Idle {
		rate.Add(rate, new(big.Rat).Mul(model.GPUHour.Rat(), version.IdleSurcharge.Rat()))
	}
	return rate, book.Currency, true
}

// FindingOf is how decisions name an episode.
func FindingOf(e *episode.Episode) decisions.Target {
	return decisions.Target{
		ID: e.ID(), Kind: string(e.Kind), Tenant: e.Tenant, Project: e.Project, Workload: e.Workload,
	}
}

// muted returns which findings are muted now, as far as decisions are projected.
func (p *Pipeline) muted(ctx context.Context) (func(*episode.Episode) bool, error) {
	findings, err := projection.Findings(ctx, p.Access.DB)
	now := p.Session.Clock.Now()
	return func(e *episode.Episode) bool {
		m := findings.Marks(FindingOf(e), now)
		return m.Muted()
	}, err
}

// Zone is that of the tenant's months.
func (r ListRates) Zone(tenant string) *time.Location { return r.InForce().Location(tenant) }

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
