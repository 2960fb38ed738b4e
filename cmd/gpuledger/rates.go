package main

import (
	"time"

	"github.com/shopspring/decimal"

	"github.com/gpuledger/gpuledger/billing/prices"
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

// rates are the published book's where this process reads decisions, else the
// configured one's.
func (p *pipeline) rates() (listRates, error) {
	if p.register != nil {
		return listRates{p.register.Known}, nil
	}
	book, err := p.cfg.Billing.book()
	return listRates{func() *prices.Book { return book }}, err
}
