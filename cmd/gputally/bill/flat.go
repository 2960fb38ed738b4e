package bill

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
)

// flatRates are the values of --gpu-hour, in their order.
type flatRates []flatRate

// flatRate is the rate of a model; if that is empty, of all others.
type flatRate struct {
	model string
	rate  decimal.Decimal
}

// Set parses MODEL=RATE or RATE, each model once.
func (f *flatRates) Set(text string) error {
	var r flatRate
	number := text
	if at := strings.LastIndexByte(text, '='); at >= 0 {
		if r.model, number = text[:at], text[at+1:]; r.model == "" {
			return errors.New("want MODEL=RATE, or a RATE alone for all models")
		}
	}
	var err error
	if r.rate, err = prices.ParseNumber(number); err != nil {
		return err
	}
	if slices.ContainsFunc(*f, func(other flatRate) bool { return other.model == r.model }) {
		return fmt.Errorf("a second rate for %s", quotedModel(r.model))
	}
	*f = append(*f, r)
	return nil
}

func quotedModel(model string) string {
	if model == "" {
		return "all models"
	}
	return fmt.Sprintf("%q", model)
}

// of returns the rate of each model that has one.
func (f flatRates) of(models []string) map[string]decimal.Decimal {
	rates := map[string]decimal.Decimal{}
	for _, r := range f {
		if r.model != "" {
			rates[r.model] = r.rate
			continue
		}
		for _, model := range models {
			if !slices.ContainsFunc(f, func(own flatRate) bool { return own.model != "" && own.model == model }) {
				rates[model] = r.rate
			}
		}
	}
	return rates
}
