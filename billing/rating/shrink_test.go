package rating

import (
	"encoding/csv"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
)

// report is a failing case by its seed, shrunk, as a usage file and a price
// book that `gputally prices simulate` reads (which takes an hour without
// platform rows as supplied).
func report(seed uint64) string {
	kind := func(c testCase) string {
		what, _, _ := strings.Cut(compare(c, map[string]int{}), " = ")
		return what
	}
	c := newGenerator(seed).testCase()
	found := kind(c)
	c = shrink(c, func(c testCase) bool { return kind(c) == found })
	return fmt.Sprintf("replay with %s=%d %s=1: %s\nfewest rows, period %s, simulate %t:\n%s\n%s",
		seedVariable, seed, casesVariable, compare(c, map[string]int{}), c.period, c.simulate, usageCSV(c.rows), bookYAML(c.book))
}

// shrink takes away from a case what it does not need to fail, until nothing
// more can be taken.
func shrink(c testCase, fails func(testCase) bool) testCase {
	for again := true; again; {
		again = false
		for i := 0; ; i++ {
			smaller, more := simpler(c, i)
			if !more {
				break
			}
			if smaller != nil && fails(*smaller) {
				c, again = *smaller, true
				i--
			}
		}
	}
	return c
}

// simpler is the i-th way to take something from a case, nil where there is
// nothing to take; false when there are no more ways.
func simpler(c testCase, i int) (*testCase, bool) {
	c.rows, c.book = slices.Clone(c.rows), cloneBook(c.book)
	if i < len(c.rows) {
		c.rows = slices.Delete(c.rows, i, i+1)
		return &c, true
	}
	i -= len(c.rows)
	edits := append(rowEdits(&c), bookEdits(c.book)...)
	if i >= len(edits) {
		return nil, false
	}
	if !edits[i]() {
		return nil, true
	}
	return &c, true
}

// set makes a field plain, and tells whether it was not.
func set[T comparable](field *T, plain T) func() bool {
	return func() bool {
		was := *field
		*field = plain
		return was != plain
	}
}

func setZero(field *decimal.Decimal) func() bool {
	return func() bool {
		was := *field
		*field = decimal.Zero
		return !was.IsZero()
	}
}

func rowEdits(c *testCase) []func() bool {
	edits := []func() bool{set(&c.simulate, true)}
	for i := range c.rows {
		row := &c.rows[i]
		edits = append(edits, set(&row.EnergyMJ, 0), set(&row.Project, ""), set(&row.SliceMS, int64(row.Slices)*3_600_000),
			func() bool { was := row.Profile; row.Profile, row.ProfileSlices = "", 0; return was != "" })
	}
	return edits
}

func bookEdits(book *prices.Book) []func() bool {
	edits := []func() bool{set(&book.MinorUnit, 2), set(&book.Zone, time.UTC)}
	for _, tenant := range slices.Sorted(maps.Keys(book.TenantZones)) {
		edits = append(edits, func() bool { delete(book.TenantZones, tenant); return true })
	}
	for i := range book.Versions {
		v := &book.Versions[i]
		edits = append(edits, setZero(&v.KWh), setZero(&v.IdleSurcharge), set(&v.Proportional, false), func() bool {
			if len(book.Versions) > 1 {
				book.Versions = slices.Delete(book.Versions, i, i+1)
				return true
			}
			return false
		})
		for _, tenant := range slices.Sorted(maps.Keys(v.Tenants)) {
			edits = append(edits, func() bool { delete(v.Tenants, tenant); return true })
			edits = append(edits, termEdits(v.Tenants, tenant)...)
		}
		for _, name := range slices.Sorted(maps.Keys(v.Models)) {
			edits = append(edits, modelEdits(v.Models, name)...)
		}
	}
	return edits
}

func termEdits(all map[string]prices.Terms, tenant string) []func() bool {
	edit := func(change func(*prices.Terms) bool) func() bool {
		return func() bool {
			terms := all[tenant]
			changed := change(&terms)
			all[tenant] = terms
			return changed
		}
	}
	return []func() bool{
		edit(func(t *prices.Terms) bool { return setZero(&t.Discount)() }),
		edit(func(t *prices.Terms) bool { return setZero(&t.FixedDiscount)() }),
		edit(func(t *prices.Terms) bool { setZero(&t.Minimum)(); return set(&t.HasMinimum, false)() }),
		edit(func(t *prices.Terms) bool {
			if len(t.Reserved) == 0 {
				return false
			}
			t.Reserved = t.Reserved[1:]
			return true
		}),
	}
}

func modelEdits(all map[string]prices.Model, name string) []func() bool {
	return []func() bool{
		func() bool { delete(all, name); return true },
		func() bool {
			model := all[name]
			was := len(model.Tiers)
			model.Tiers = model.Tiers[min(1, was):]
			all[name] = model
			return was > 0
		},
		func() bool { was := len(all[name].Profiles); clear(all[name].Profiles); return was > 0 },
		func() bool {
			model := all[name]
			was := model.GPUHour
			model.GPUHour = decimal.New(1, 0)
			all[name] = model
			return !was.Equal(model.GPUHour)
		},
	}
}

func cloneBook(book *prices.Book) *prices.Book {
	copied := *book
	copied.TenantZones = maps.Clone(book.TenantZones)
	copied.Versions = slices.Clone(book.Versions)
	for i := range copied.Versions {
		v := &copied.Versions[i]
		v.Tenants, v.Models = maps.Clone(v.Tenants), maps.Clone(v.Models)
		for name, model := range v.Models {
			model.Profiles, model.Tiers = maps.Clone(model.Profiles), slices.Clone(model.Tiers)
			v.Models[name] = model
		}
	}
	return &copied
}

func usageCSV(rows []Row) string {
	var text strings.Builder
	out := csv.NewWriter(&text)
	must(out.Write(csvColumns))
	for _, row := range rows {
		must(out.Write([]string{
			row.Hour.Format(time.RFC3339), row.Tenant, row.Project, row.Model, row.Profile, strconv.Itoa(row.ProfileSlices),
			strconv.Itoa(row.Slices), row.Bucket, strconv.FormatInt(row.SliceMS, 10), strconv.FormatInt(row.EnergyMJ, 10),
		}))
	}
	out.Flush()
	return text.String()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// bookYAML is a book as a file.
func bookYAML(book *prices.Book) string {
	var text strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) }
	say("currency: %s\nminor_unit: %d\ntime_zone: %s\ntenants:", book.Currency, book.MinorUnit, book.Zone)
	for _, tenant := range slices.Sorted(maps.Keys(book.TenantZones)) {
		say("  %s: {time_zone: %s}", tenant, book.TenantZones[tenant])
	}
	say("versions:")
	for _, v := range book.Versions {
		say("- effective: %s", v.Effective.Format(time.RFC3339))
		say("  kwh: %q\n  idle_surcharge: %q", v.KWh, v.IdleSurcharge)
		say("  distribution: %s\n  models:", map[bool]string{true: "proportional", false: "none"}[v.Proportional])
		for _, name := range slices.Sorted(maps.Keys(v.Models)) {
			say("    %s:\n      gpu_hour: %q\n      profiles:", name, v.Models[name].GPUHour)
			for _, profile := range slices.Sorted(maps.Keys(v.Models[name].Profiles)) {
				say("        %s: %q", profile, v.Models[name].Profiles[profile])
			}
			say("      tiers:")
			for _, tier := range v.Models[name].Tiers {
				say("      - {above: %q, gpu_hour: %q}", tier.Above, tier.GPUHour)
			}
		}
		say("  tenants:")
		for _, tenant := range slices.Sorted(maps.Keys(v.Tenants)) {
			terms := v.Tenants[tenant]
			say("    %s:\n      discount: %q\n      fixed_discount: %q", tenant, terms.Discount, terms.FixedDiscount)
			if terms.HasMinimum {
				say("      minimum: %q", terms.Minimum)
			}
			say("      reserved:")
			for _, r := range terms.Reserved {
				say("      - {model: %s, gpus: %q, unused_gpu_hour: %q}", r.Model, r.GPUs, r.UnusedGPUHour)
			}
		}
	}
	return text.String()
}

// A printed case is the case: read back, it gives the same invoices.
func TestPrintedCasesCanBeReplayed(t *testing.T) {
	replayed := 0
	for seed := range uint64(200) {
		c := newGenerator(seed).testCase()
		want, err := Rate(c.book, c.period, c.rows, Options{Simulate: c.simulate})
		if err != nil {
			continue
		}
		book, err := prices.Parse("random", []byte(bookYAML(c.book)))
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, bookYAML(c.book))
		}
		rows, err := ReadCSV(strings.NewReader(usageCSV(c.rows)))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got, err := Rate(book, c.period, rows, Options{Simulate: c.simulate})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for i := range want.Invoices {
			want.Invoices[i].PriceHash = got.Invoices[i].PriceHash // a book of the test's own has no text
		}
		if diff := cmp.Diff(want.Invoices, got.Invoices, sameDecimal); diff != "" {
			t.Fatalf("seed %d: invoices (-want +got):\n%s", seed, diff)
		}
		replayed++
	}
	if replayed < 150 {
		t.Errorf("%d cases were replayed, want nearly all of 200", replayed)
	}
}

func TestShrinkingLeavesTheFewestRows(t *testing.T) {
	for seed := range uint64(100) {
		c := newGenerator(seed).testCase()
		idle := func(c testCase) bool {
			for _, row := range c.rows {
				if row.Bucket == "idle" {
					return true
				}
			}
			return false
		}
		if !idle(c) {
			continue
		}
		got := shrink(c, idle)
		v := got.book.Versions[0]
		if len(got.rows) != 1 || len(got.book.Versions) != 1 || len(v.Models)+len(v.Tenants) != 0 || !got.simulate {
			t.Fatalf("seed %d: shrunk to %d rows of\n%s", seed, len(got.rows), bookYAML(got.book))
		}
		return
	}
	t.Error("no case has an idle row")
}
