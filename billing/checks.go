package billing

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/gpuledger/gpuledger/billing/invoice"
	"github.com/gpuledger/gpuledger/billing/rating"
	"github.com/gpuledger/gpuledger/internal/check"
)

// Checks are C7 (money, in the parts that drafts have) and C8 (same usage,
// same bytes) over some months such as "2026-10".
func Checks(drafts *invoice.Drafts, periods []string) []check.Check {
	return []check.Check{moneyCheck{drafts, periods}, bytesCheck{drafts, periods}}
}

type moneyCheck struct {
	drafts  *invoice.Drafts
	periods []string
}

// Name is C7.
func (moneyCheck) Name() string { return "C7" }

// Run rates the months; List itself holds every part of C7.
func (c moneyCheck) Run(ctx context.Context) (check.Result, error) {
	result := check.New(c.Name(), "lines, effects and totals agree; list value conserves capacity; distribution sums to zero")
	for _, period := range c.periods {
		month, err := c.drafts.List(ctx, period)
		var violation *invoice.ViolationError
		switch {
		case errors.As(err, &violation):
			result.Fail("%v", err)
		case unpriced(err):
			say(&result, period+" has no invoices: "+err.Error())
		case err != nil:
			return result, err
		default:
			result.Checked += int64(len(month.Invoices))
			p := month.Platform
			say(&result, fmt.Sprintf("%s: tenants %s + platform %s + quantity rounding %s = capacity %s %s",
				period, p.TenantsList, p.List, p.QuantityRounding, p.CapacityList, month.Currency))
		}
	}
	return result, nil
}

func say(result *check.Result, figures string) {
	if result.Figures != "" {
		result.Figures += "; "
	}
	result.Figures += figures
}

// unpriced says that a month can't be invoiced for want of a rate: then there
// is no invoice that could be wrong.
func unpriced(err error) bool {
	var missing *rating.MissingModelError
	return errors.As(err, &missing)
}

type bytesCheck struct {
	drafts  *invoice.Drafts
	periods []string
}

// Name is C8.
func (bytesCheck) Name() string { return "C8" }

// Run drafts each month twice. An invoice whose usage changed in between has
// another usage hash and proves nothing.
func (c bytesCheck) Run(ctx context.Context) (check.Result, error) {
	result := check.New(c.Name(), "the same usage and price book give the same bytes")
	for _, period := range c.periods {
		first, err := c.drafts.List(ctx, period)
		if unpriced(err) {
			continue
		}
		if err != nil {
			return result, err
		}
		second, err := c.drafts.List(ctx, period)
		if err != nil {
			return result, err
		}
		if err := compare(&result, first.Invoices, second.Invoices); err != nil {
			return result, err
		}
	}
	result.Figures = fmt.Sprintf("%d invoices drafted twice", result.Checked)
	return result, nil
}

func compare(result *check.Result, first, second []invoice.Invoice) error {
	again := map[string]*invoice.Invoice{}
	for i := range second {
		again[second[i].UsageHash+second[i].Number] = &second[i]
	}
	for i := range first {
		other := again[first[i].UsageHash+first[i].Number]
		if other == nil {
			continue
		}
		result.Checked++
		one, err := invoice.Canonical(&first[i])
		if err != nil {
			return err
		}
		two, err := invoice.Canonical(other)
		if err != nil {
			return err
		}
		if !bytes.Equal(one, two) {
			result.Fail("invoice %s with usage %s has two forms", first[i].Number, first[i].UsageHash)
		}
	}
	return nil
}
