package rating

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
)

func dec(text string) decimal.Decimal { return decimal.RequireFromString(text) }

// A text comes back from every form of an amount; none and zero are two things.
func TestMoneyKeepsItsText(t *testing.T) {
	for text, places := range map[string]int32{"": 0, "0": 0, "5": 0, "5.00": 2, "-0.10": 2, "1.123456789": 9} {
		m, err := ParseMoney(text)
		if err != nil || m.String() != text || m.Places() != places || m.Valid() != (text != "") {
			t.Errorf("ParseMoney(%q) = %q of %d places, %v", text, m, m.Places(), err)
		}
		data, err := json.Marshal(m)
		var again, plain Money
		if err := errors.Join(err, json.Unmarshal(data, &again)); err != nil || again != m && !again.Equal(m) || string(data) != fmt.Sprintf("%q", text) {
			t.Errorf("%q in JSON is %s, and %q again, %v", text, data, again, err)
		}
		out, err := m.MarshalText()
		if err := errors.Join(err, plain.UnmarshalText(out)); err != nil || !plain.Equal(m) || string(out) != text {
			t.Errorf("%q as text is %s, and %q again, %v", text, out, plain, err)
		}
	}
	for _, text := range []string{"x", "1,5", "--1"} {
		if m, err := ParseMoney(text); err == nil {
			t.Errorf("ParseMoney(%q) = %s", text, m)
		}
	}
	var m Money
	for _, data := range []string{"5", `"x"`, "{"} {
		if json.Unmarshal([]byte(data), &m) == nil {
			t.Errorf("%s in JSON is an amount, %s", data, m)
		}
	}
	if got := Fixed(dec("1.5"), 2).String(); got != "1.50" {
		t.Errorf("1.5 with two places is %s", got)
	}
	if got := Exact(dec("1.50")); got.String() != dec("1.50").String() {
		t.Errorf("1.50 with as many places as it needs is %s", got)
	}
}

func TestPeriodsAtTheirBounds(t *testing.T) {
	for text, taken := range map[string]bool{"1970-12": false, "1971-01": true, "2105-12": true, "2106-01": false} {
		if p, err := ParsePeriod(text); (err == nil) != taken || err == nil && p.String() != text {
			t.Errorf("ParsePeriod(%q) = %s, %v", text, p, err)
		}
	}
	for months, want := range map[int]string{0: "2026-03", 1: "2026-02", 2: "2026-01", 3: "2025-12", 15: "2024-12", -1: "2026-04"} {
		if got := (Period{2026, 3}).Before(months).String(); got != want {
			t.Errorf("%d months before 2026-03 is %s, want %s", months, got, want)
		}
	}
	from, to := Period{2026, 12}.Range()
	if !from.Equal(time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)) || !to.Equal(time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("December 2026 is within %s and %s", from, to)
	}
}

func TestRoundingIsHalfEven(t *testing.T) {
	for value, want := range map[string]string{
		"5/2": "2", "7/2": "4", "-5/2": "-2", "-7/2": "-4", "249/100": "2", "251/100": "3", "0": "0", "1/3": "0", "2/3": "1",
	} {
		r, _ := new(big.Rat).SetString(value)
		if got := prices.RoundRat(r, 0).String(); got != want {
			t.Errorf("%s rounds to %s, want %s", value, got, want)
		}
		if r.Sign() >= 0 {
			if got := divideHalfEven(r.Num().Int64(), r.Denom().Int64()); fmt.Sprint(got) != want {
				t.Errorf("%s divides to %d, want %s", value, got, want)
			}
		}
	}
}

func TestListValueIsOfTenantsAndPlatform(t *testing.T) {
	value := NewListValue(testBook(t, oneModel))
	rows := []Row{
		held(func(r *Row) { r.SliceMS = 12_600_000 }), // half a GPU-hour
		held(func(r *Row) { r.Tenant, r.Bucket, r.SliceMS = "", "free", 12_600_000-1 }),
	}
	if err := errors.Join(value.AddRows(rows), value.AddCapacity(Capacity{march, "H100", 7, 25_200_000 - 1})); err != nil {
		t.Fatal(err)
	}
	if !value.Tenants.Equal(dec("1.245")) || value.Platform.Equal(dec("1.245")) {
		t.Errorf("list value of tenants %s, of the platform %s; want 1.245, and a slice-ms less", value.Tenants, value.Platform)
	}
	if sum := value.Tenants.Add(value.Platform).Add(value.QuantityRounding()); !sum.Equal(value.Capacity()) || value.QuantityRounding().IsZero() {
		t.Errorf("%s + %s + %s is not %s", value.Tenants, value.Platform, value.QuantityRounding(), value.Capacity())
	}
	if err := value.Check(); err != nil {
		t.Error(err)
	}
	if err := value.AddRows([]Row{held(func(r *Row) { r.Slices = 0 })}); err == nil {
		t.Error("a row of no slices was valued")
	}
	if err := value.AddRows([]Row{held(func(r *Row) { r.Model = "L4" })}); err == nil {
		t.Error("a model without a rate was valued")
	}
}

func TestReportedAs(t *testing.T) {
	for want, row := range map[string]Row{
		"1/7": {ProfileSlices: 1, Slices: 7}, "1/2": {ProfileSlices: 2, Slices: 4}, "1": {ProfileSlices: 7, Slices: 7},
	} {
		if got := row.ReportedAs(); got != want {
			t.Errorf("%+v is reported as %q, want %q", row, got, want)
		}
	}
	for _, row := range []Row{{}, {Slices: 7}, {ProfileSlices: 1}} {
		if got := row.ReportedAs(); got != "" {
			t.Errorf("%+v is reported as %q", row, got)
		}
	}
}

func TestWhatCantBeBilledIsFoundBefore(t *testing.T) {
	for name, c := range map[string]struct {
		row  Row
		good bool
	}{
		"a whole GPU":              {held(func(*Row) {}), true},
		"a profile":                {held(func(r *Row) { r.Profile, r.ProfileSlices = "1g", 1 }), true},
		"a profile of no size":     {held(func(r *Row) { r.Profile = "1g" }), false},
		"as much time as fits":     {held(func(r *Row) { r.SliceMS = maxSliceMS }), true},
		"more":                     {held(func(r *Row) { r.SliceMS = maxSliceMS + 1 }), false},
		"no time":                  {held(func(r *Row) { r.SliceMS = 0 }), true},
		"one slice":                {held(func(r *Row) { r.Slices = 1 }), true},
		"as much energy as fits":   {held(func(r *Row) { r.EnergyMJ = maxEnergyMJ }), true},
		"as little":                {held(func(r *Row) { r.EnergyMJ = -maxEnergyMJ }), true},
		"less":                     {held(func(r *Row) { r.EnergyMJ = -maxEnergyMJ - 1 }), false},
		"a free tenant":            {held(func(r *Row) { r.Bucket = "free" }), false},
		"the platform's free time": {held(func(r *Row) { r.Tenant, r.Bucket = "", "unobserved" }), true},
		"the platform's idle time": {held(func(r *Row) { r.Tenant, r.Bucket = "", "idle" }), false},
	} {
		if err := Billable([]Row{c.row}); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
	book := testBook(t, oneModel)
	rows := []Row{
		held(func(r *Row) { r.Model = "L4" }), held(func(*Row) {}), held(func(r *Row) { r.Model = "B300" }), held(func(r *Row) { r.Model = "L4" }),
	}
	var models []string
	for _, missing := range Unpriced(book, march, rows) {
		if !missing.Hour.Equal(march) || !missing.Version.Equal(march) || missing.Book != book.Name {
			t.Errorf("%+v", missing)
		}
		models = append(models, missing.Model)
	}
	if diff := cmp.Diff([]string{"B300", "L4"}, models); diff != "" {
		t.Errorf("unpriced (-want +got):\n%s", diff)
	}
	if got := Unpriced(book, march.Add(-time.Hour), rows); got != nil {
		t.Errorf("before the book: %v", got)
	}
}

// A freeze's text of some hours has those hours' lines, under the same head.
func TestFreezesAreCutByTheHour(t *testing.T) {
	book := testBook(t, oneModel+"  distribution: proportional\n")
	for hours := range 4 {
		f := NewFreeze(book)
		if err := f.AddHour(march.Add(-time.Hour), []Row{held(func(r *Row) { r.Hour = march.Add(-time.Hour) })}); err != nil {
			t.Fatal(err)
		}
		var want []string
		head := string(f.Text(march, march))
		for n := range hours {
			hour := march.Add(time.Duration(n) * time.Hour)
			err := f.AddHour(hour, []Row{
				held(func(r *Row) { r.Hour = hour }), held(func(r *Row) { r.Hour, r.Tenant, r.Bucket, r.SliceMS = hour, "", "free", int64(n+1)*3_600_000 }),
			})
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, strings.TrimPrefix(string(f.Text(hour, hour.Add(time.Hour))), head))
			if !strings.Contains(want[n], hour.Format(time.RFC3339)) {
				t.Fatalf("hour %d is %q", n, want[n])
			}
		}
		for from := range hours + 1 {
			for to := from; to <= hours; to++ {
				got := string(f.Text(march.Add(time.Duration(from)*time.Hour), march.Add(time.Duration(to)*time.Hour)))
				if diff := cmp.Diff(head+strings.Join(want[from:to], ""), got); diff != "" || !strings.HasPrefix(got, `["freeze",1]`) {
					t.Errorf("hours %d to %d of %d (-want +got):\n%s", from, to, hours, diff)
				}
			}
		}
		frozen := NewFrozen()
		if err := frozen.AddFreeze(march, march.Add(4*time.Hour), f.Text(march, march.Add(4*time.Hour))); err != nil {
			t.Fatal(err)
		}
		var all []time.Time
		for n := range hours {
			all = append(all, march.Add(time.Duration(n)*time.Hour))
		}
		if got := frozen.Hours(); !slices.Equal(got, all) {
			t.Errorf("hours %v, want %v", got, all)
		}
		if frozen.Covers(march.Add(-1)) || !frozen.Covers(march) || !frozen.Covers(march.Add(4*time.Hour-1)) || frozen.Covers(march.Add(4*time.Hour)) {
			t.Error("what is covered is not [from, to)")
		}
		if err := frozen.AddFreeze(march, march, []byte("x")); err == nil {
			t.Error("a text that is no freeze was taken")
		}
	}
	f := NewFreeze(book)
	var missing *MissingModelError
	if err := f.AddHour(march, []Row{held(func(r *Row) { r.Model = "L4" })}); !errors.As(err, &missing) {
		t.Errorf("a model without a rate: %v", err)
	}
	if err := f.AddHour(march, []Row{held(func(r *Row) { r.Slices = 0 })}); err == nil {
		t.Error("a row of no slices was frozen")
	}
	if err := f.AddHour(march, []Row{held(func(r *Row) { r.Profile = "1g" })}); err == nil {
		t.Error("a priced profile of no size was frozen")
	}
	if (*Frozen)(nil).Hours() != nil || (*Frozen)(nil).Covers(march) {
		t.Error("no freeze covers an hour")
	}
}

// Lines of a copy may be as long as a mebibyte, and no longer.
func TestLongLinesOfACopy(t *testing.T) {
	read := func(project string) (string, error) {
		var text bytes.Buffer
		newCopyWriter(&text).usage(held(func(r *Row) { r.Project = project }))
		got := ""
		err := ReadCopy("a", &text, func(f Fact) error { got = f.Row.Project; return nil })
		return got, err
	}
	long := strings.Repeat("x", 200<<10)
	if got, err := read(long); got != long || err != nil {
		t.Errorf("a line of 200 KiB: %d bytes, %v", len(got), err)
	}
	if _, err := read(strings.Repeat("x", 1<<20)); err == nil {
		t.Error("a line of more than 1 MiB was read")
	}
	full := errors.New("disk full")
	w := newCopyWriter(failing{full})
	w.usage(held(func(*Row) {}))
	if _, err := w.sum(); !errors.Is(err, full) {
		t.Errorf("a copy that could not be written: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestACopyIsRatedByItsBook(t *testing.T) {
	row := held(func(r *Row) { r.Profile, r.ProfileSlices = "1g", 1 })
	var text bytes.Buffer
	newCopyWriter(&text).usage(row)
	invoice, err := RateCopy(testBook(t, oneModel), Period{2026, 3}, "a", bytes.NewReader(text.Bytes()), nil)
	if err != nil || invoice.Tenant != "a" {
		t.Fatal(invoice, err)
	}
	var missing *MissingModelError
	other := testBook(t, strings.Replace(oneModel, "H100", "B300", 1))
	if invoice, err := RateCopy(other, Period{2026, 3}, "a", bytes.NewReader(text.Bytes()), nil); invoice != nil || !errors.As(err, &missing) {
		t.Errorf("a copy whose model has no rate: %+v, %v", invoice, err)
	}
	text.Reset()
	newCopyWriter(&text).usage(held(func(r *Row) { r.Profile = "1g" }))
	if invoice, err := RateCopy(testBook(t, oneModel), Period{2026, 3}, "a", &text, nil); invoice != nil || err == nil {
		t.Errorf("a copy with a priced profile of no size: %+v", invoice)
	}
}

// The platform's time has no price by profile, and hours outside everybody's month no price.
func TestWhatIsNotPriced(t *testing.T) {
	rows := []Row{held(func(r *Row) { r.Tenant, r.Bucket, r.Profile = "", "stranded", "1g" })}
	if _, err := Rate(testBook(t, oneModel), Period{2026, 3}, rows, Options{}); err != nil {
		t.Errorf("the platform's part of a GPU: %v", err)
	}
	const reserved = `
  tenants: {t: {minimum: "1"%s}}
`
	for extra, wanted := range map[string]bool{"": false, `, reserved: [{model: H100, gpus: "1", unused_gpu_hour: "1"}]`: true} {
		book := testBook(t, strings.TrimSuffix(strings.Replace(oneModel, "2026-03-01", "2026-02-01", 1), "\n")+fmt.Sprintf(reserved, extra))
		kolkata, err := time.LoadLocation("Asia/Kolkata")
		if err != nil {
			t.Fatal(err)
		}
		book.TenantZones = map[string]*time.Location{"t": kolkata}
		before := march.Add(-time.Hour) // in March for t alone
		_, err = Rate(book, Period{2026, 3}, []Row{held(func(r *Row) { r.Hour, r.Model = before, "L4" })}, Options{})
		if (err != nil) != wanted {
			t.Errorf("another tenant's model without a rate, reserved %q: %v", extra, err)
		}
	}
}

func TestANegatedChargeTakesItBack(t *testing.T) {
	c := Charge{Tenant: "a", SliceMS: 7, Effect: EffectList}.times(dec("2"), UnitGPUHour, dec("1.5"))
	n := c.Negated()
	if n.SliceMS != -7 || !n.Quantity.Equal(dec("-2")) || !n.Amount.Equal(dec("-3")) || !n.UnitPrice.Equal(c.UnitPrice) || n.Tenant != "a" {
		t.Errorf("%+v negated is %+v", c, n)
	}
	sums := lineSums{}
	sums.charge(c)
	sums.charge(n)
	if lines := sums.sorted(); len(lines) > 0 {
		t.Errorf("a charge and what takes it back leave %+v", lines)
	}
}

// A month and the difference to another one are that other one, and a
// difference is an invoice of its own: its lines sum to its effects and total.
func TestR17NotesAndWhatTheyCorrectAreTheNewMonth(t *testing.T) {
	notes := 0
	for seed := range uint64(200) {
		result, copies, c := rateWithCopies(t, seed, Options{})
		for i := range result.Invoices {
			before := &result.Invoices[i]
			var text bytes.Buffer
			recopy, err := NewRecopy(c.book, c.period, before.Tenant, bytes.NewReader(copies[before.Tenant].Bytes()), &text)
			if err != nil {
				t.Fatal(err)
			}
			byHour(c.rows, func(hour time.Time, rows []Row) {
				if err := recopy.AddHour(hour, rows[:len(rows)/2]); err != nil {
					t.Fatal(err)
				}
			})
			if _, err := recopy.Finish(); err != nil {
				t.Fatal(err)
			}
			after, err := RateCopy(c.book, c.period, before.Tenant, &text, nil)
			if err != nil {
				t.Fatal(err)
			}
			note := Difference(after, before)
			if !before.Total.Add(note.Total.Decimal).Equal(after.Total.Decimal) ||
				!before.GPUHours.Add(note.GPUHours.Decimal).Equal(after.GPUHours.Decimal) {
				t.Fatalf("seed %d: %s and the note %s are not %s", seed, before.Total, note.Total, after.Total)
			}
			if err := CheckLines(&note); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if err := CheckEffects(&note, c.book.MinorUnit); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if !note.Effects.Distribution.IsZero() {
				t.Fatalf("seed %d: a note moves distribution by %s", seed, note.Effects.Distribution)
			}
			if len(note.Lines) > 0 {
				notes++
			}
			if same := Difference(before, before); len(same.Lines) > 0 || !same.Total.IsZero() {
				t.Fatalf("seed %d: an invoice differs from itself by %+v", seed, same.Lines)
			}
			seen := map[Line]bool{} // a line tells one difference of what it names and costs
			for _, line := range note.Lines {
				price := line.UnitPrice.Decimal.String()
				line.Quantity, line.UnitPrice, line.Amount = Money{}, Money{}, Money{}
				line.Detail += price
				if seen[line] {
					t.Fatalf("seed %d: two lines of %+v", seed, line)
				}
				seen[line] = true
			}
		}
	}
	if notes == 0 {
		t.Error("no note ever had a line")
	}
}
