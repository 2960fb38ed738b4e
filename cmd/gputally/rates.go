package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/projection"
	"github.com/gputally/gputally/internal/clock"
)

// listRates gives the analyzer the list prices of the book in force.
type listRates struct{ inForce func() *prices.Book }

// GPUHour is the model's list rate in the version in force at hour.
func (r listRates) GPUHour(model string, hour time.Time) (rate decimal.Decimal, currency string, ok bool) {
	book := r.inForce()
	i := book.At(hour)
	if i < 0 {
		return rate, "", false
	}
	m, ok := book.Versions[i].Models[model]
	return m.GPUHour, book.Currency, ok
}

// book is the price book in force, as ClickHouse knows it: the one published
// last, else the configured one.
func (a *access) book(ctx context.Context) (*prices.Book, error) {
	published, err := projection.BookInForce(ctx, a.db)
	if err != nil || published != nil {
		return published, err
	}
	configured, err := a.cfg.Billing.book()
	if err != nil {
		return nil, usageError{err}
	}
	return configured, nil
}

// bookLook is how often a service without the decisions looks for a new book.
const bookLook = time.Minute

// startRates gives the list rates of the book in force: where this process
// reads no decisions, of the one that ClickHouse knew a minute ago.
func (p *pipeline) startRates(ctx context.Context) (listRates, error) {
	if p.register != nil {
		return listRates{p.register.Known}, nil
	}
	var known atomic.Pointer[prices.Book]
	book, err := p.access.book(ctx)
	if err != nil {
		return listRates{}, err
	}
	known.Store(book)
	p.group.Go("price book", func(ctx context.Context) error {
		for clock.Sleep(ctx, p.s.clock, bookLook) == nil {
			book, err := p.access.book(ctx)
			if err != nil {
				p.s.log.Warn("the price book in force can't be read, the last one counts", "error", err)
				continue
			}
			known.Store(book)
		}
		return nil
	})
	return listRates{known.Load}, nil
}
