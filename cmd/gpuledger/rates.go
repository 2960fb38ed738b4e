package main

import (
	"time"

	"github.com/shopspring/decimal"

	"github.com/gpuledger/gpuledger/billing/prices"
)

// listRates gives the analyzer the price book's list prices.
type listRates struct{ book *prices.Book }

// GPUHour is the model's list rate in the version in force at hour.
func (r listRates) GPUHour(model string, hour time.Time) (rate decimal.Decimal, currency string, ok bool) {
	i := r.book.At(hour)
	if i < 0 {
		return rate, "", false
	}
	m, ok := r.book.Versions[i].Models[model]
	return m.GPUHour, r.book.Currency, ok
}
