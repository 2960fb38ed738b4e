package rating

import (
	"maps"
	"math/big"
	"slices"
	"testing"
	"time"
)

// exemptFromSplitting are the effects of which two parts of a month need not
// add up to the whole, and why (R8). All else adds up exactly.
var exemptFromSplitting = map[string]string{
	"tier":           "the second part's count begins at zero again",
	"discount":       "it is a share of the tiers too",
	"fixed_discount": "each part has the month's, up to what is left of it",
	"minimum":        "each part has the month's",
	"energy":         "kWh are rounded once a month and version",
	"rounding":       "each part is rounded",
	"reservation":    "in a simulation an hour without rows is a reserved one, in both parts",
}

// sums are figures by what they are and whose.
type sums map[[2]string]*big.Rat

func (s sums) add(what, whose string, amount *big.Rat) { addTo(s, [2]string{what, whose}, amount) }

// sumsOf rates a case: slice_ms, GPU-hours and effects of every tenant and of
// the platform, and both sides of C7b.
func sumsOf(t *testing.T, c testCase) sums {
	t.Helper()
	s := sums{}
	result, err := Rate(c.book, c.period, c.rows, Options{Simulate: c.simulate, Observe: func(c Charge) {
		if c.Effect == EffectList {
			s.add("slice_ms", c.Tenant, rat(c.SliceMS, 1))
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, invoice := range result.Invoices {
		s.add("gpu_hours", invoice.Tenant, invoice.GPUHours.Rat())
		for _, effect := range invoice.Effects.Ordered() {
			s.add(effect.Name, invoice.Tenant, effect.Amount.Rat())
		}
	}
	s.add("gpu_hours", "", result.Platform.GPUHours.Rat())
	s.add("list", "", result.Platform.List.Rat())
	s.add("distribution", "", result.Platform.Distribution.Rat())
	s.add("energy_mj", "", result.Platform.EnergyMJ.Rat())
	value := NewListValue(c.book)
	byHour(c.rows, func(_ time.Time, rows []Row) {
		if err := value.AddRows(rows); err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if err := value.AddCapacity(Capacity{row.Hour, row.Model, row.Slices, row.SliceMS}); err != nil {
				t.Fatal(err)
			}
		}
	})
	s.add("C7b", "tenants", value.Tenants.Rat())
	s.add("C7b", "platform", value.Platform.Rat())
	s.add("C7b", "quantity rounding", value.rest.value())
	s.add("C7b", "capacity", value.capacity())
	return s
}

// splitAt is a case's part before an hour, and its part from there on.
func splitAt(c testCase, hour time.Time) (before, after testCase) {
	before, after = c, c
	before.rows = slices.DeleteFunc(slices.Clone(c.rows), func(row Row) bool { return !row.Hour.Before(hour) })
	after.rows = slices.DeleteFunc(slices.Clone(c.rows), func(row Row) bool { return row.Hour.Before(hour) })
	return before, after
}

// Splitting a month at any UTC hour preserves slice_ms and unrounded list
// value, the tenants', the platform's and the capacity's (R8); and of the
// effects all but the exempt ones, each of which is shown to need it.
func TestSplittingAPeriodPreservesTimeAndListValue(t *testing.T) {
	t.Parallel()
	differs, same, splits := map[string]int{}, 0, 0
	for seed := range uint64(2000) {
		c := priceableCase(seed)
		if len(c.rows) == 0 {
			continue
		}
		before, after := splitAt(c, c.rows[seed%uint64(len(c.rows))].Hour)
		whole, parts := sumsOf(t, c), sumsOf(t, before)
		for name, amount := range sumsOf(t, after) {
			parts.add(name[0], name[1], amount)
		}
		if len(before.rows) > 0 {
			splits++
		}
		for name := range whole {
			parts.add(name[0], name[1], zero())
		}
		for _, name := range slices.SortedFunc(maps.Keys(parts), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
			exempt := exemptFromSplitting[name[0]] != "" && (name[0] != "reservation" || c.simulate)
			want := whole[name]
			if want == nil {
				want = zero()
			}
			switch {
			case parts[name].Cmp(want) == 0:
				same++
			case exempt:
				differs[name[0]]++
			default:
				t.Fatalf("seed %d: %s of %q: the parts have %s, the whole %s", seed, name[0], name[1], parts[name].FloatString(18), want.FloatString(18))
			}
		}
	}
	t.Logf("%d months in two, %d figures the same, exempt ones that differ: %v", splits, same, differs)
	for effect, why := range exemptFromSplitting {
		if differs[effect] == 0 {
			t.Errorf("%s never differs: why is it exempt (%s)?", effect, why)
		}
	}
}
