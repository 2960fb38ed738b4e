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
			result.NotProve(period + " has no invoices: " + err.Error())
		case err != nil:
			return result, err
		default:
			result.Checked += int64(len(month.Invoices))
			p := month.Platform
			result.Say(fmt.Sprintf("%s: tenants %s + platform %s + quantity rounding %s = capacity %s %s",
				period, p.TenantsList, p.List, p.QuantityRounding, p.CapacityList, month.Currency))
		}
	}
	nothing(&result, c.periods)
	return result, nil
}

// nothing says of a ledger without hours that there is nothing to check.
func nothing(result *check.Result, periods []string) {
	if len(periods) == 0 {
		result.NotProve("nothing to check: the ledger is empty")
	}
}

// unpriced says that a month can't be invoiced for want of a rate: then there
// is no invoice that could be wrong, and none that could be right.
func unpriced(err error) bool {
	var missing *rating.MissingModelError
	var before *rating.BeforeBookError
	return errors.As(err, &missing) || errors.As(err, &before)
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
	var without []string
	for _, period := range c.periods {
		first, err := c.drafts.List(ctx, period)
		if unpriced(err) {
			without = append(without, period)
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
	if len(c.periods) > 0 {
		result.Say(fmt.Sprintf("%d invoices drafted twice", result.Checked))
	}
	for _, period := range without {
		result.NotProve(period + " has no invoices for want of a price")
	}
	nothing(&result, c.periods)
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
