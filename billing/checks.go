package billing

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/check"
)

// Drafts are those of a month such as "2026-10", by the book in force.
type Drafts func(ctx context.Context, period string) (*invoice.Drafts, error)

// Checks are C7 (money) and C8 (same usage, same bytes) over some months, and
// over all decided invoices of a register, which may be nil: none are decided.
func Checks(drafts Drafts, register *invoice.Register, periods []string) []check.Check {
	return []check.Check{moneyCheck{drafts, register, periods}, bytesCheck{drafts, register, periods}}
}

type moneyCheck struct {
	drafts   Drafts
	register *invoice.Register
	periods  []string
}

// Name is C7.
func (moneyCheck) Name() string { return "C7" }

// Run rates the months; List itself holds every part of C7.
func (c moneyCheck) Run(ctx context.Context) (check.Result, error) {
	result := check.New(c.Name(),
		"lines, effects and totals agree; list value conserves capacity; distribution sums to zero")
	for _, period := range c.periods {
		month, err := list(ctx, c.drafts, period)
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
			withheld(&result, month)
			p := month.Platform
			result.Say(fmt.Sprintf("%s: tenants %s + platform %s + quantity rounding %s = capacity %s %s",
				period, p.TenantsList, p.List, p.QuantityRounding, p.CapacityList, month.Currency))
		}
	}
	nothing(&result, c.periods)
	if c.register == nil {
		return result, nil
	}
	return result, c.cover(ctx, &result)
}

// withheld says what is left out of a month's documents: what has no rate yet can't
// be wrong, what can't be counted is.
func withheld(result *check.Result, month *invoice.Month) {
	unpriced, first := 0, ""
	say := func(document string, why invoice.Reason, says string) {
		switch why {
		case "":
		case invoice.ReasonNoRate:
			if unpriced++; first == "" {
				first = document + ": " + says
			}
		default:
			result.Fail("%s in %s is quarantined: %s", document, month.Period, says)
		}
	}
	for i := range month.Invoices {
		in := &month.Invoices[i]
		say(fmt.Sprintf("tenant %q", in.Tenant), in.Withheld, in.Quarantined)
	}
	say("the platform's account", month.Platform.Withheld, month.Platform.Quarantined)
	if unpriced > 0 {
		result.NotProve(fmt.Sprintf("%s: %d documents lack hours without a rate, such as %s", month.Period, unpriced, first))
	}
}

// cover is C7d: every tenant's hour with usage is in one finalised invoice, or
// in none.
func (c moneyCheck) cover(ctx context.Context, result *check.Result) error {
	coverage, err := c.register.Coverage(ctx)
	if err != nil {
		return err
	}
	for _, wrong := range coverage.Wrong {
		result.Fail("%s", wrong)
	}
	result.Say(fmt.Sprintf("tenants' hours with usage: %d invoiced, %d unbilled, %d in pending adjustments",
		coverage.Invoiced, coverage.Unbilled, coverage.Pending))
	return nil
}

func list(ctx context.Context, of Drafts, period string) (*invoice.Month, error) {
	drafts, err := of(ctx, period)
	if err != nil {
		return nil, err
	}
	return drafts.List(ctx, period)
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
	drafts   Drafts
	register *invoice.Register
	periods  []string
}

// Name is C8.
func (bytesCheck) Name() string { return "C8" }

// Run drafts each month twice. An invoice whose usage changed in between has
// another usage hash and proves nothing.
func (c bytesCheck) Run(ctx context.Context) (check.Result, error) {
	result := check.New(c.Name(), "the same usage and price book give the same bytes")
	var without []string
	for _, period := range c.periods {
		first, err := list(ctx, c.drafts, period)
		if unpriced(err) {
			without = append(without, period)
			continue
		}
		if err != nil {
			return result, err
		}
		second, err := list(ctx, c.drafts, period)
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
	if c.register == nil {
		return result, nil
	}
	return result, c.recompute(ctx, &result)
}

// recompute rates every decided document's own copy again.
func (c bytesCheck) recompute(ctx context.Context, result *check.Result) error {
	decided := 0
	err := c.register.VerifyAll(ctx, func(v *invoice.Verdict) error {
		decided++
		result.Checked++
		if !v.Same {
			result.Fail("%s does not follow from its own usage: %s", v.Number, v.Wrong)
		}
		return nil
	})
	if decided > 0 {
		result.Say(fmt.Sprintf("%d finalised invoices and notes recomputed from their own usage", decided))
	}
	return err
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
