package rating

import (
	"errors"
	"io"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/internal/costtest"
)

var march = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func testBook(t *testing.T, versions string) *prices.Book {
	t.Helper()
	book, err := prices.Parse("book.yaml", []byte("currency: USD\nversions:\n"+versions))
	if err != nil {
		t.Fatal(err)
	}
	return book
}

const oneModel = `
- effective: 2026-03-01T00:00:00Z
  models: {H100: {gpu_hour: "2.49", profiles: {1g: "0.40"}}}
`

func held(change func(*Row)) Row {
	row := Row{Hour: march, Tenant: "a", Model: "H100", Slices: 7, Bucket: "active", SliceMS: 25_200_000}
	change(&row)
	return row
}

func TestRateRefusesWhatContradictsTheRules(t *testing.T) {
	cases := []struct {
		name string
		rows []Row
		want string
	}{
		{"unknown bucket", []Row{held(func(r *Row) { r.Bucket = "busy" })}, `bucket "busy" is none of the seven`},
		{"tenant on free", []Row{held(func(r *Row) { r.Bucket = "free" })}, `bucket "free" cannot be one of tenant "a"`},
		{"platform on active", []Row{held(func(r *Row) { r.Tenant = "" })}, `bucket "active" cannot be one of the platform`},
		{"no slices", []Row{held(func(r *Row) { r.Slices = 0 })}, "slices 0 is not positive"},
		{"negative profile", []Row{held(func(r *Row) { r.ProfileSlices = -1 })}, "profile_slices -1"},
		{"negative time", []Row{held(func(r *Row) { r.SliceMS = -1 })}, "slice_ms -1"},
		{"too much time", []Row{held(func(r *Row) { r.SliceMS = maxSliceMS }), held(func(*Row) {})}, "slice_ms 36000000252"},
		{"too much energy", []Row{held(func(r *Row) { r.EnergyMJ = maxEnergyMJ + 1 })}, "energy_mj 100000000000000001"},
		{"part of an hour", []Row{held(func(r *Row) { r.Hour = march.Add(time.Minute) })}, "00:01:00Z is not the start of a UTC hour"},
		{"slices differ", []Row{held(func(*Row) {}), held(func(r *Row) { r.Slices = 4 })}, "slices 7 and 4"},

		{"priced profile without slices", []Row{held(func(r *Row) { r.Profile = "1g" })}, "profile_slices 0 of a profile with a price"},
	}
	book := testBook(t, oneModel)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Rate(book, Period{2026, 3}, c.rows, Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want it to contain %s", err, c.want)
			}
		})
	}
}

func TestRateNamesAllModelsWithoutARate(t *testing.T) {
	rows := []Row{
		held(func(r *Row) { r.Model, r.Hour = "B300", march.Add(2*time.Hour) }),
		held(func(r *Row) { r.Model, r.Hour = "B300", march.Add(time.Hour) }),
		held(func(r *Row) { r.Model = "L4" }),
	}
	_, err := Rate(testBook(t, oneModel), Period{2026, 3}, rows, Options{})
	var missing *MissingModelError
	if !errors.As(err, &missing) {
		t.Fatalf("error = %v, want a MissingModelError", err)
	}
	for _, want := range []string{
		`price model "B300" at 2026-03-01T01:00:00Z: book.yaml has no rate for it in the version effective 2026-03-01T00:00:00Z; add it under models`,
		`price model "L4" at 2026-03-01T00:00:00Z`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want it to contain %s", err, want)
		}
	}
}

func TestRateUsageBeforeTheFirstVersion(t *testing.T) {
	book := testBook(t, strings.Replace(oneModel, "03-01T00", "03-02T00", 1))
	_, err := Rate(book, Period{2026, 3}, []Row{held(func(*Row) {})}, Options{})
	if want := "rate usage at 2026-03-01T00:00:00Z: book.yaml starts at 2026-03-02T00:00:00Z; add a version that is effective by then"; err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
	// The day before the month is read for other zones' sake; it needs no price.
	early := []Row{held(func(r *Row) { r.Hour = march.Add(-time.Hour) })}
	result, err := Rate(testBook(t, oneModel), Period{2026, 3}, early, Options{})
	if err != nil || len(result.Invoices) != 0 {
		t.Errorf("invoices = %v, %v, want none", result, err)
	}
}

func TestReservationNeedsSupplyInTheLedger(t *testing.T) {
	book := testBook(t, oneModel+`  tenants: {a: {reserved: [{model: H100, gpus: "2", unused_gpu_hour: "1.00"}]}}
`)
	rows := []Row{
		held(func(*Row) {}),
		held(func(r *Row) { r.Tenant, r.Bucket = "", "free" }),
		held(func(r *Row) { r.Hour = march.Add(time.Hour) }),
	}
	for _, c := range []struct {
		options Options
		want    string
	}{{Options{}, "1"}, {Options{Simulate: true}, "1486"}} {
		result, err := Rate(book, Period{2026, 3}, rows, c.options)
		if err != nil {
			t.Fatal(err)
		}
		if got := result.Invoices[0].Effects.Reservation.String(); got != c.want {
			t.Errorf("reservation with %+v = %s, want %s", c.options, got, c.want)
		}
	}
}

// A reservation's line names a model, and no unit that is sold.
func TestOnlyTimeHeldHasASKU(t *testing.T) {
	book := testBook(t, strings.TrimPrefix(oneModel, "\n")+`  tenants:
    a: {reserved: [{model: H100, gpus: "3", unused_gpu_hour: "1"}]}
`)
	book.SKUs = []prices.SKU{{Name: "whole", GPUs: 1}, {Name: "part", Profile: "1g"}}
	rows := []Row{
		held(func(*Row) {}), held(func(r *Row) { r.Profile, r.ProfileSlices = "1g", 1 }),
		held(func(r *Row) { r.Tenant, r.Bucket, r.SliceMS = "", "free", 100_800_000 }),
	}
	rows[1].SliceMS = 3_600_000
	result, err := Rate(book, Period{2026, 3}, rows, Options{})
	if err != nil {
		t.Fatal(err)
	}
	reserved := 0
	for _, l := range result.Invoices[0].Lines {
		want := ""
		if l.Bucket != "" {
			want = map[string]string{"": "whole", "1g": "part"}[l.Profile]
		}
		if l.SKU != want {
			t.Errorf("line %+v is of unit %q, want %q", l, l.SKU, want)
		}
		if l.Effect == EffectReservation {
			reserved++
		}
	}
	if reserved != 1 {
		t.Errorf("%d lines of a reservation, want 1", reserved)
	}
}

func TestInvoicesWithoutUsage(t *testing.T) {
	book := testBook(t, oneModel+`  tenants:
    zero: {minimum: "0"}
    empty: {reserved: []}
    fixed: {fixed_discount: "5"}
- effective: 2026-04-01T00:00:00Z
  models: {H100: {gpu_hour: "2.49"}}
  tenants: {later: {minimum: "5"}}
`)
	result, err := Rate(book, Period{2026, 3}, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var tenants []string
	for _, invoice := range result.Invoices {
		tenants = append(tenants, invoice.Tenant)
	}
	if diff := cmp.Diff([]string{"zero"}, tenants); diff != "" {
		t.Errorf("tenants (-want +got):\n%s", diff)
	}
}

func TestAddHourWantsHoursInOrder(t *testing.T) {
	rater := NewRater(testBook(t, oneModel), Period{2026, 3}, Options{})
	if err := rater.AddHour(march.Add(time.Hour), nil); err != nil {
		t.Fatal(err)
	}
	if err := rater.AddHour(march, nil); err == nil || !strings.Contains(err.Error(), "is not after") {
		t.Errorf("error = %v, want the order named", err)
	}
	if err := rater.AddHour(march.Add(2*time.Hour), []Row{held(func(*Row) {})}); err == nil {
		t.Error("a row of another hour was taken")
	}
}

func TestLinesExplainEveryEffect(t *testing.T) {
	book, rows := readCase(t, "profile")
	result, err := Rate(book, Period{2026, 3}, rows, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range result.Invoices[0].Lines {
		got = append(got, strings.Join([]string{l.Effect, l.Profile, l.Quantity.Decimal.String(), l.Unit, l.UnitPrice.Decimal.String(), l.Amount.String()}, " "))
	}
	want := []string{
		"list 1g.10gb 0.428571429 gpu_hour 2.49 1.06714285821",
		"list 3g.40gb 1.285714287 gpu_hour 2.49 3.20142857463",
		"profile 1g.10gb -0.428571429 gpu_hour 2.49 -1.06714285821",
		"profile 1g.10gb 3 profile_hour 0.4 1.2",
		"rounding  0  0 -0.00142857463",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestChecksFindWhatIsBroken(t *testing.T) {
	book, rows := readCase(t, "distribution")
	cent := decimal.RequireFromString("0.01")
	for want, breakIt := range map[string]func(*Result){
		"is not":               func(r *Result) { r.Invoices[0].Lines[0].Amount = Exact(cent) },
		"lines of list sum":    func(r *Result) { r.Invoices[0].Lines = r.Invoices[0].Lines[1:] },
		"check C7a of tenant":  func(r *Result) { r.Invoices[0].Total = Exact(r.Invoices[0].Total.Add(cent)) },
		"check C7c of tenant":  func(r *Result) { r.Invoices[0].Effects.Energy = cent },
		"more than 0 places":   func(r *Result) { r.MinorUnit = 0 },
		"distribution at 2026": func(r *Result) { r.Shared[0].Owners = cent },
		"rounding sums to":     func(r *Result) { r.Invoices[0].Effects.Rounding = cent.Add(cent) },
	} {
		result, err := Rate(book, Period{2026, 3}, rows, Options{})
		if err != nil {
			t.Fatal(err)
		}
		breakIt(result)
		if err := Check(result); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("check = %v, want it to contain %q", err, want)
		}
	}
}

func TestListValueCheckFindsAMissingMillisecond(t *testing.T) {
	value := NewListValue(testBook(t, oneModel))
	if err := value.AddRows([]Row{held(func(*Row) {})}); err != nil {
		t.Fatal(err)
	}
	if err := value.AddCapacity(Capacity{march, "H100", 7, 25_200_001}); err != nil {
		t.Fatal(err)
	}
	if err := value.Check(); err == nil || !strings.Contains(err.Error(), "check C7b") {
		t.Errorf("check = %v, want C7b broken", err)
	}
	if err := value.AddCapacity(Capacity{march, "B300", 7, 1}); err == nil {
		t.Error("a model without a rate was valued")
	}
	if err := value.AddRows([]Row{held(func(r *Row) { r.Hour = march.Add(-time.Hour) })}); err == nil {
		t.Error("an hour before the first version was valued")
	}
}

func TestPeriodHoursFollowTheZone(t *testing.T) {
	for zone, want := range map[string][2]string{
		"UTC":                {"2026-03-01T00:00:00Z", "744"},
		"Europe/Berlin":      {"2026-02-28T23:00:00Z", "743"},
		"Asia/Kolkata":       {"2026-02-28T19:00:00Z", "744"},
		"Pacific/Kiritimati": {"2026-02-28T10:00:00Z", "744"},
		"Pacific/Pago_Pago":  {"2026-03-01T11:00:00Z", "744"},
	} {
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		hours := Period{2026, 3}.Hours(location)
		got := [2]string{hours[0].Format(time.RFC3339), decimal.NewFromInt(int64(len(hours))).String()}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("first hour and count in %s (-want +got):\n%s", zone, diff)
		}
	}
	if _, err := ParsePeriod("2026-3"); err == nil || !strings.Contains(err.Error(), `"2026-3"`) {
		t.Errorf("error = %v, want the value named", err)
	}
}

func TestReadCSVNamesLineAndValue(t *testing.T) {
	const header = "hour,tenant,project,model,profile,profile_slices,slices,bucket,slice_ms,energy_mj\n"
	for text, want := range map[string]string{
		"":                                  "the file is empty",
		"hour,tenant\n":                     `header is "hour,tenant"`,
		header + "x,a,,H100,,,7,active,1,0": `line 2: hour "x"`,
		header + "2026-03-01T00:00:00Z,a,,H100,,,seven,active,1,0":    `line 2: slices "seven"`,
		header + "2026-03-01T00:00:00Z,a,,H100,,,70000,active,1,0":    `line 2: slices "70000"`,
		header + "2026-03-01T00:00:00Z,a,,H100,,,7,active,1.5,0":      `line 2: slice_ms "1.5"`,
		header + "2026-03-01T00:00:00Z,a,,H100,,,7,free,1,0":          `bucket "free" cannot be one of tenant "a"`,
		header + "2026-03-01T00:00:00Z,a,,H100,,,7,active,1":          "wrong number of fields",
		header + "2026-03-01T00:30:00Z,a,,H100,,,7,active,1,0":        "is not the start of a UTC hour",
		header + "\n2026-03-01T00:00:00Z,a,,H100,,x,7,active,1,0\n\n": `line 3: profile_slices "x"`,
	} {
		if _, err := ReadCSV(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error of %q = %v, want it to contain %s", text, err, want)
		}
	}
}

func TestUsageHashFollowsWhatTheInvoiceFollows(t *testing.T) {
	book, rows := readCase(t, "distribution")
	rate := func(change func([]Row)) []string {
		changed := append([]Row(nil), rows...)
		change(changed)
		result, err := Rate(book, Period{2026, 3}, changed, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var hashes []string
		for _, invoice := range result.Invoices {
			hashes = append(hashes, invoice.UsageHash)
		}
		return hashes
	}
	before := rate(func([]Row) {})
	if diff := cmp.Diff(before, rate(func([]Row) {})); diff != "" {
		t.Errorf("hashes of the same usage differ:\n%s", diff)
	}
	// The second tenant's usage changes the first one's share of platform time.
	after := rate(func(rows []Row) { rows[1].SliceMS *= 2 })
	if before[0] == after[0] || before[1] == after[1] {
		t.Errorf("hashes %v stayed equal, though the distribution changed", after)
	}
	// Unobserved time costs nobody anything.
	if diff := cmp.Diff(before, rate(func(rows []Row) { rows[3].SliceMS *= 2 })); diff != "" {
		t.Errorf("hashes changed with what isn't on the invoice:\n%s", diff)
	}
}

func TestDistributionTiesGoByNameInCodePointOrder(t *testing.T) {
	one := decimal.NewFromInt(1)
	parts := []part{{tenant: "ä", claim: one}, {tenant: "b", claim: one}, {tenant: "B", claim: one}}
	if !split(decimal.New(5, -places), parts) {
		t.Fatal("the pool was not split")
	}
	got := map[string]int64{}
	for _, p := range parts {
		got[p.tenant] = p.given.Int64()
	}
	if diff := cmp.Diff(map[string]int64{"B": 2, "b": 2, "ä": 1}, got); diff != "" {
		t.Errorf("parts in 1e-9 (-want +got):\n%s", diff)
	}
	if split(one, []part{{tenant: "a"}}) {
		t.Error("a pool without claims was split")
	}
}

// 00:00 UTC on 1 March is February five hours west: nobody is billed for the hour
// in March, but the book's zone is UTC, and the rounding of a seventh is its.
func TestPlatformsAccountHasHoursThatNobodyIsBilledFor(t *testing.T) {
	book := testBook(t, oneModel)
	book.TenantZones["a"] = time.FixedZone("west", -5*3600)
	result, err := Rate(book, Period{2026, 3}, []Row{held(func(r *Row) { r.SliceMS = 3_600_000 })}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := result.Platform.QuantityRounding.String(); len(result.Invoices) != 0 || got != "-0.000000000355714286" {
		t.Errorf("%d invoices and quantity rounding %s, want none and a seventh less 0.142857143 of 2.49", len(result.Invoices), got)
	}
}

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

// Reports of a model that disagree about a profile's number of slices are billed
// each by its own, and named: nobody's month fails for them.
func TestProfileOfTwoSizesIsBilledApart(t *testing.T) {
	book := parseBook(t, `currency: USD
versions:
- effective: 2026-01-01T00:00:00Z
  models: {H100: {gpu_hour: "7.00", profiles: {1g.10gb: "0.50"}}}
`)
	hour := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	row := Row{Hour: hour, Tenant: "a", Model: "H100", Profile: "1g.10gb", ProfileSlices: 1, Slices: 7, Bucket: "active", SliceMS: 3_600_000}
	other := row
	other.ProfileSlices, other.SliceMS = 2, 7_200_000
	result, err := Rate(book, Period{2026, time.March}, []Row{row, other, row}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(result); err != nil {
		t.Error(err)
	}
	invoice := result.Invoices[0]
	// Two hours of one slice, and one hour of two slices, at 0.50 each.
	if got := invoice.Total.Decimal.String(); got != "1.5" {
		t.Errorf("total %s, want 1.5", got)
	}
	named := map[string]string{}
	for _, line := range invoice.Lines {
		if line.Effect == EffectList {
			named[line.ReportedAs] = line.Quantity.Decimal.String()
			if !strings.Contains(line.Detail, line.ReportedAs) {
				t.Errorf("the line doesn't name what was reported: %q", line.Detail)
			}
		}
	}
	if len(named) != 2 || named["1/7"] != "0.285714286" || named["2/7"] != "0.285714286" {
		t.Errorf("list lines by size: %v", named)
	}
	if err := Billable([]Row{row, other}); err != nil {
		t.Errorf("not billable: %v", err)
	}
}

const usageHeader = "hour,tenant,project,model,profile,profile_slices,slices,bucket,slice_ms,energy_mj\n"

func TestReadCSVSkipsASpreadsheetsByteOrderMark(t *testing.T) {
	const line = "2026-03-01T01:00:00+01:00,a,p,H100,1g.10gb,1,7,idle,3600000,-5\r\n"
	plain, err := ReadCSV(strings.NewReader(usageHeader + line))
	if err != nil {
		t.Fatal(err)
	}
	marked, err := ReadCSV(strings.NewReader(byteOrderMark + usageHeader + line))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plain, marked); diff != "" || len(plain) != 1 || plain[0].EnergyMJ != -5 || plain[0].Hour.Hour() != 0 {
		t.Errorf("rows with a mark (-without +with):\n%s\nof %+v", diff, plain)
	}
}

func TestReadCSVTellsWhatIsWrongWithANumber(t *testing.T) {
	for text, want := range map[string]string{
		"2026-03-01T00:00:00Z,a,,H100,,,7,active,99999999999999999999,0": `line 2: slice_ms "99999999999999999999" is beyond 64 bits`,
		"2026-03-01T00:00:00Z,a,,H100,,,70000,active,1,0":                `line 2: slices "70000" is beyond 16 bits`,
		"2026-03-01T00:00:00Z,a,,H100,,,7,active,one,0":                  `line 2: slice_ms "one" is not an integer`,
		"2026-03-01T00:00:00Z,\xff,,H100,,,7,active,1,0":                 `line 2: tenant "\xff" is not UTF-8`,
	} {
		if _, err := ReadCSV(strings.NewReader(usageHeader + text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error of %q = %v, want it to contain %s", text, err, want)
		}
	}
}

// FuzzReadCSV: any file is rows or an error, cheaply.
func FuzzReadCSV(f *testing.F) {
	f.Add(usageHeader + "2026-03-01T01:00:00+01:00,a,p,H100,1g.10gb,1,7,idle,3600000,-5\r\n")
	f.Add(usageHeader + "\"" + strings.Repeat("\n", 100))
	f.Fuzz(func(t *testing.T, text string) {
		costtest.Within(t, costtest.Time, 64<<20+4<<10*uint64(len(text)), func() {
			rows, err := ReadCSV(strings.NewReader(text))
			if err == nil && len(rows) > len(text) {
				t.Errorf("%d rows of %q", len(rows), text)
			}
		})
	})
}

// TestL6UsageIsRefusedAtTheRecordThatHasNoEnd reads no further.
func TestL6UsageIsRefusedAtTheRecordThatHasNoEnd(t *testing.T) {
	endless := io.MultiReader(strings.NewReader(usageHeader+"\""), zeros{})
	var err error
	if peak := costtest.Peak(func() { _, err = ReadCSV(endless) }); peak > 64<<20 || err == nil {
		t.Errorf("held %d bytes, error %v", peak, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
