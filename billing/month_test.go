package billing_test

import (
	"encoding/csv"
	"errors"
	"io"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/export"
	"github.com/gputally/gputally/billing/export/focus"
	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/rating"
)

// The size of the month, from the environment: `make month GPUS=1000`.
const (
	monthGPUsVariable    = "GPUTALLY_MONTH_GPUS"
	monthTenantsVariable = "GPUTALLY_MONTH_TENANTS"
	defaultMonthGPUs     = 20
	defaultMonthTenants  = 8
)

const monthPeriod = "2026-10"

// TestMonthOfAThousandGPUs bills a month of a whole cluster and holds C7a to
// C7e against what the ledger says by other queries, in exact fractions. It
// prints what each step took.
func TestMonthOfAThousandGPUs(t *testing.T) {
	l := newMonthLedger(t, size(t, monthGPUsVariable, defaultMonthGPUs), size(t, monthTenantsVariable, defaultMonthTenants))
	drafts := invoice.NewDrafts(l.db, l.book)
	var month *invoice.Month
	measure(t, "draft all invoices", func() (err error) {
		month, err = drafts.List(t.Context(), monthPeriod)
		return err
	})
	var chargeback string
	measure(t, "chargeback CSV", func() (err error) {
		chargeback, err = export.Chargeback(t.TempDir(), month)
		return err
	})
	if len(month.Invoices) != l.tenants {
		t.Errorf("%d invoices, want one for each of %d tenants", len(month.Invoices), l.tenants)
	}
	charged := l.charge(t, drafts)
	t.Run("C7a", func(t *testing.T) { linesAreTotals(t, month, chargeback) })
	t.Run("C7b", func(t *testing.T) { l.capacityIsListValue(t, month, charged) })
	t.Run("C7c", func(t *testing.T) { effectsAreTotals(t, month) })
	t.Run("C7d", func(t *testing.T) { l.eachHourIsBilledOnce(t, charged) })
	t.Run("C7e", func(t *testing.T) { l.distributionIsZero(t, month, charged) })
	t.Run("FOCUS", func(t *testing.T) { focusIsTotals(t, drafts, month) })
	t.Run("finalised", func(t *testing.T) { l.finalisedMonth(t, month) })
}

func size(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < 10 {
		t.Fatalf("%s is %q, want a number of at least 10", variable, text)
	}
	return value
}

func amountOf(t *testing.T, text string) decimal.Decimal {
	t.Helper()
	amount, err := decimal.NewFromString(text)
	if err != nil {
		t.Fatalf("%q is not an amount: %v", text, err)
	}
	return amount
}

// linesAreTotals is C7a, of documents and of what the chargeback CSV says.
func linesAreTotals(t *testing.T, month *invoice.Month, chargeback string) {
	want, got, lines := map[string]string{}, map[string]string{}, 0
	for _, i := range month.Invoices {
		want[i.Tenant] = amountOf(t, i.Total.String()).String()
		sum := decimal.Zero
		lines += len(i.Lines)
		for _, line := range i.Lines {
			sum = sum.Add(amountOf(t, line.Amount.String()))
		}
		if !sum.Equal(amountOf(t, i.Total.String())) {
			t.Errorf("lines of %s sum to %s, the total is %s", i.Number, sum, i.Total)
		}
	}
	for tenant, sum := range sumByTenant(t, chargeback, "tenant", "amount") {
		if tenant != "" { // without one: the platform's list value, less what it gave
			got[tenant] = sum.String()
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sums of the chargeback CSV (-want +got):\n%s", diff)
	}
	t.Logf("%d invoices with %d lines", len(month.Invoices), lines)
}

// effectsAreTotals is C7c: the effects sum to the total, their lines to them
// and in their order, and over the month every effect takes place.
func effectsAreTotals(t *testing.T, month *invoice.Month) {
	tried := map[string]int{}
	for _, i := range month.Invoices {
		sum, lines, last := decimal.Zero, map[string]decimal.Decimal{}, 0
		var order []string
		for _, effect := range i.Effects.Ordered() {
			sum = sum.Add(effect.Amount)
			order = append(order, effect.Name)
			if !effect.Amount.IsZero() {
				tried[effect.Name]++
			}
		}
		for _, line := range i.Lines {
			at := slices.Index(order, line.Effect)
			if at < last {
				t.Errorf("%s: a line of %s stands after one of %s", i.Number, line.Effect, order[last])
			}
			last = max(at, last)
			lines[line.Effect] = lines[line.Effect].Add(amountOf(t, line.Amount.String()))
		}
		for _, effect := range i.Effects.Ordered() {
			if !lines[effect.Name].Equal(effect.Amount) {
				t.Errorf("%s: lines of %s sum to %s, the effect is %s", i.Number, effect.Name, lines[effect.Name], effect.Amount)
			}
		}
		if !sum.Equal(amountOf(t, i.Total.String())) {
			t.Errorf("%s: effects sum to %s, the total is %s", i.Number, sum, i.Total)
		}
	}
	t.Logf("invoices with each effect: %v", tried)
	if effects := len((rating.Effects{}).Ordered()); len(tried) != effects {
		t.Errorf("%d of %d effects took place", len(tried), effects)
	}
}

// focusIsTotals writes the month as FOCUS: what is billed by tenant is the
// invoices, and whole-GPU list cost what tenants and platform have by list, each
// in its own month.
func focusIsTotals(t *testing.T, drafts *invoice.Drafts, month *invoice.Month) {
	path := filepath.Join(t.TempDir(), "focus.csv")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	var summary focus.Summary
	measure(t, "FOCUS 1.4 CSV, with drafting", func() (err error) {
		summary, err = focus.Write(file, focus.Options{Version: focus.Version14}, focus.Drafts(t.Context(), drafts, monthPeriod, nil))
		return errors.Join(err, file.Close())
	})
	if list := listValue(t, month); !summary.WholeGPUListCost.Equal(list) {
		t.Errorf("x_WholeGPUListCost sums to %s, the list value is %s", summary.WholeGPUListCost, list)
	}
	want, got := map[string]string{}, map[string]string{}
	for _, i := range month.Invoices {
		want[i.Tenant] = amountOf(t, i.Total.String()).String()
	}
	for tenant, sum := range sumByTenant(t, path, "SubAccountId", "BilledCost") {
		if !sum.IsZero() {
			got[strings.TrimPrefix(tenant, "tenant/")] = sum.String()
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("BilledCost (-want +got):\n%s", diff)
	}
	t.Logf("%d rows", summary.Rows)
}

// sumByTenant sums a column of a CSV by another, row by row.
func sumByTenant(t *testing.T, path, by, column string) map[string]decimal.Decimal {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	in := csv.NewReader(file)
	in.ReuseRecord = true
	header, err := in.Read()
	if err != nil {
		t.Fatal(err)
	}
	key, amount := slices.Index(header, by), slices.Index(header, column)
	sums := map[string]decimal.Decimal{}
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			return sums
		} else if err != nil {
			t.Fatal(err)
		}
		sums[strings.Clone(record[key])] = sums[record[key]].Add(amountOf(t, record[amount]))
	}
}

// charged is what three months' drafts charged, by UTC hour.
type charged struct {
	sliceMS      map[tenantHour]int64
	months       map[tenantHour]int
	list         map[time.Time]decimal.Decimal // tenants' and platform's
	distribution map[time.Time]decimal.Decimal
}

type tenantHour struct {
	Tenant string
	Hour   time.Time
}

// charge drafts the month and its neighbours: an hour at an end is in one
// tenant's October and in another's September.
func (l *monthLedger) charge(t *testing.T, drafts *invoice.Drafts) charged {
	t.Helper()
	c := charged{map[tenantHour]int64{}, map[tenantHour]int{}, map[time.Time]decimal.Decimal{}, map[time.Time]decimal.Decimal{}}
	for _, period := range []string{"2026-09", monthPeriod, "2026-11"} {
		seen := map[tenantHour]bool{}
		_, err := drafts.Charges(t.Context(), period, func(charge rating.Charge) {
			k := tenantHour{charge.Tenant, charge.Hour}
			switch charge.Effect {
			case rating.EffectList:
				c.sliceMS[k] += charge.SliceMS
				c.list[charge.Hour] = c.list[charge.Hour].Add(charge.Amount)
				if !seen[k] {
					seen[k] = true
					c.months[k]++
				}
			case rating.EffectDistribution:
				c.distribution[charge.Hour] = c.distribution[charge.Hour].Add(charge.Amount)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// eachHourIsBilledOnce is C7d on drafts: every tenant's hour with usage is in
// one month's draft, with all its time, and nothing else is.
func (l *monthLedger) eachHourIsBilledOnce(t *testing.T, c charged) {
	want := l.held(t)
	once, got := map[tenantHour]int{}, maps.Clone(c.sliceMS)
	for k := range want {
		once[k] = 1
	}
	months := maps.Clone(c.months)
	for k := range c.months {
		if k.Tenant == "" {
			delete(months, k)
			delete(got, k)
		}
	}
	if diff := cmp.Diff(once, months); diff != "" {
		t.Errorf("drafts that a tenant's hour is in (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slice_ms billed (-want +got):\n%s", diff)
	}
	t.Logf("%d hours of tenants", len(want))
}

// distributionIsZero is C7e.
func (l *monthLedger) distributionIsZero(t *testing.T, month *invoice.Month, c charged) {
	for hour, sum := range c.distribution {
		if !sum.IsZero() {
			t.Errorf("distribution at %s sums to %s", hour.Format(time.RFC3339), sum)
		}
	}
	if hours := l.hours * 9 / 10; len(c.distribution) < hours {
		t.Errorf("platform time was distributed in %d hours, want at least %d", len(c.distribution), hours)
	}
	sum := decimal.Zero
	for _, i := range month.Invoices {
		sum = sum.Add(i.Effects.Rounding)
	}
	if most := decimal.New(5*int64(len(month.Invoices)), -3); sum.Abs().GreaterThan(most) {
		t.Errorf("rounding sums to %s, more than %s", sum, most)
	}
}

// capacityIsListValue is C7b: over the book's month, and hour by hour, what
// tenants and platform have by list is what the capacity is worth, but for the
// rounding of quantities, which is below 1e-9 GPU-hours a row.
func (l *monthLedger) capacityIsListValue(t *testing.T, month *invoice.Month, c charged) {
	total, rounding := new(big.Rat), new(big.Rat)
	for _, capacity := range l.capacity(t) {
		worth := new(big.Rat)
		for _, model := range capacity.models {
			worth.Add(worth, l.worth(capacity.hour, model))
		}
		rest := new(big.Rat).Sub(worth, c.list[capacity.hour].Rat())
		if bound := big.NewRat(1, 1_000_000); new(big.Rat).Abs(rest).Cmp(bound) > 0 {
			t.Fatalf("capacity at %s is worth %s, drafts have %s", capacity.hour, worth.FloatString(12), c.list[capacity.hour])
		}
		if rating.PeriodOf(capacity.hour, l.book.Zone).String() == monthPeriod {
			total.Add(total, worth)
			rounding.Add(rounding, rest)
		}
	}
	p := month.Platform
	for _, figure := range []struct {
		what, got string
		want      *big.Rat
	}{{"capacity", p.CapacityList.String(), total}, {"quantity rounding", p.QuantityRounding.String(), rounding}} {
		apart := new(big.Rat).Sub(amountOf(t, figure.got).Rat(), figure.want)
		if apart.Abs(apart).Cmp(new(big.Rat).SetFrac(big.NewInt(1), big.NewInt(2e18))) > 0 {
			t.Errorf("%s is %s, want %s", figure.what, figure.got, figure.want.FloatString(24))
		}
	}
	sum := amountOf(t, p.TenantsList.String()).Rat()
	sum.Add(sum, amountOf(t, p.List.String()).Rat())
	if sum.Add(sum, rounding).Cmp(total) != 0 {
		t.Errorf("tenants %s + platform %s + %s is not %s", p.TenantsList, p.List, rounding.FloatString(24), total.FloatString(24))
	}
	t.Logf("tenants %s + platform %s + quantity rounding %s = capacity %s %s",
		p.TenantsList, p.List, p.QuantityRounding, p.CapacityList, month.Currency)
}

// measure runs a step and prints its time, and CPU time and peak memory of this
// process and of the engine's.
func measure(t *testing.T, what string, run func() error) {
	t.Helper()
	forgetPeaks(t)
	own, engine := usageOf(os.Getpid()), usageOf(children()...)
	start := time.Now()
	if err := run(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	t.Logf("%s: %s; here %s; in the engine %s", what, took.Round(time.Millisecond),
		usageOf(os.Getpid()).since(own), usageOf(children()...).since(engine))
}
