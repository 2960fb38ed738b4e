package billing

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/plural"
)

// Drafts returns the drafts of a month such as "2026-10", by the book in force.
type Drafts func(ctx context.Context, period string) (*invoice.Drafts, error)

// Checks are C7 (money) and C8 (same usage, same bytes) for some months, and for all decided invoices of a register,
// which may be nil.
func Checks(drafts Drafts, register *invoice.Register, periods []string) []check.Check {
	c := checks{drafts, register, periods}
	return []check.Check{
		check.Func("C7", "lines, effects and totals agree; list value conserves capacity; distribution sums to zero", c.money),
		check.Func("C8", "the same usage and price book give the same bytes", c.bytes),
	}
}

type checks struct {
	drafts   Drafts
	register *invoice.Register
	periods  []string
}

// money rates the months; List itself checks every part of C7.
func (c checks) money(ctx context.Context, result *check.Result) error {
	for _, period := range c.periods {
		month, err := list(ctx, c.drafts, period)
		var violation *invoice.ViolationError
		switch {
		case errors.As(err, &violation):
			result.Fail("%v", err)
		case rating.NoRate(err): // then there is no invoice that could be wrong or right
			result.NotProve(period + " has no invoices: " + err.Error())
		case err != nil:
			return err
		default:
			result.Checked += int64(len(month.Invoices))
			withheld(result, month)
			p := month.Platform
			result.Say(fmt.Sprintf("%s: tenants %s + platform %s + quantity rounding %s = capacity %s %s",
				period, p.TenantsList, p.List, p.QuantityRounding, p.CapacityList, month.Currency))
		}
	}
	nothing(result, c.periods)
	if c.register == nil {
		return nil
	}
	return c.cover(ctx, result)
}

// withheld reports what is left out of a month's documents: hours without a rate are not proven, hours that can't be
// billed are a failure.
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

// cover is C7d: every tenant's hour with usage is in one finalised invoice, or in none.
func (c checks) cover(ctx context.Context, result *check.Result) error {
	coverage, err := c.register.Coverage(ctx)
	if err != nil {
		return err
	}
	for _, wrong := range coverage.Wrong {
		result.Fail("%s", wrong)
	}
	result.Say(fmt.Sprintf("tenants' hours with usage: %d invoiced, %d unbilled, %d in pending adjustments (%s)",
		coverage.Invoiced, coverage.Unbilled, coverage.Pending, plural.Of(coverage.Adjustments, "adjustment")))
	return nil
}

func list(ctx context.Context, of Drafts, period string) (*invoice.Month, error) {
	drafts, err := of(ctx, period)
	if err != nil {
		return nil, err
	}
	return drafts.List(ctx, period)
}

// nothing marks the result of an empty ledger as not proven.
func nothing(result *check.Result, periods []string) {
	if len(periods) == 0 {
		result.NotProve("nothing to check: the ledger is empty")
	}
}

// bytes drafts each month twice. An invoice whose usage changed in between has another usage hash and proves nothing.
func (c checks) bytes(ctx context.Context, result *check.Result) error {
	var without []string
	for _, period := range c.periods {
		first, err := list(ctx, c.drafts, period)
		if rating.NoRate(err) {
			without = append(without, period)
			continue
		}
		if err != nil {
			return err
		}
		second, err := list(ctx, c.drafts, period)
		if err != nil {
			return err
		}
		if err := compare(result, first.Invoices, second.Invoices); err != nil {
			return err
		}
	}
	if len(c.periods) > 0 {
		result.Say(fmt.Sprintf("%d invoices drafted twice", result.Checked))
	}
	for _, period := range without {
		result.NotProve(period + " has no invoices, since a price is missing")
	}
	nothing(result, c.periods)
	if c.register == nil {
		return nil
	}
	return c.recompute(ctx, result)
}

// recompute rates every decided document's own copy again.
func (c checks) recompute(ctx context.Context, result *check.Result) error {
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
