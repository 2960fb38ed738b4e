package rating

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/internal/costtest"
)

func parseBook(t *testing.T, text string) *prices.Book {
	t.Helper()
	book, err := prices.Parse("book.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// rateWithCopies rates a random month that has all prices, keeping the copies.
func rateWithCopies(t *testing.T, seed uint64, options Options) (*Result, map[string]*bytes.Buffer, testCase) {
	t.Helper()
	c := priceableCase(seed)
	copies := map[string]*bytes.Buffer{}
	options.Copy = func(tenant string) io.Writer {
		copies[tenant] = &bytes.Buffer{}
		return copies[tenant]
	}
	result, err := Rate(c.book, c.period, c.rows, options)
	if err != nil {
		t.Fatal(err)
	}
	return result, copies, c
}

// An invoice follows from its copy and the book alone (C8): effects, lines and
// the hash are the same again, and the charges told are the tenant's, and all.
func TestC8CopiesGiveTheSameInvoices(t *testing.T) {
	invoices := 0
	for seed := range uint64(300) {
		result, copies, c := rateWithCopies(t, seed, Options{})
		for _, want := range result.Invoices {
			told := map[string]decimal.Decimal{}
			got, err := RateCopy(c.book, c.period, want.Tenant, bytes.NewReader(copies[want.Tenant].Bytes()), func(charge Charge) {
				told[charge.Tenant] = told[charge.Tenant].Add(charge.Amount)
			})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if len(told) > 1 || !told[want.Tenant].Equal(want.Total.Decimal) {
				t.Fatalf("seed %d: charges told are %v, want %s of tenant %q", seed, told, want.Total, want.Tenant)
			}
			if diff := cmp.Diff(&want, got, sameDecimal); diff != "" {
				t.Fatalf("seed %d, tenant %q (-want +got):\n%s", seed, want.Tenant, diff)
			}
			invoices++
		}
	}
	t.Logf("%d invoices", invoices)
}

// What closed hours' usage decides is the same whoever looks, and a month that
// is rated with it is the month rated without.
func TestR17FrozenHoursDecideAsTheirRowsDid(t *testing.T) {
	decided := 0
	for seed := range uint64(300) {
		want, _, c := rateWithCopies(t, seed, Options{})
		freeze := NewFreeze(c.book)
		byHour(c.rows, func(hour time.Time, rows []Row) {
			if err := freeze.AddHour(hour, rows); err != nil {
				t.Fatal(err)
			}
		})
		from, to := c.period.Range()
		frozen := NewFrozen()
		if err := frozen.AddFreeze(from, to, freeze.Text(from, to)); err != nil {
			t.Fatal(err)
		}
		got, err := Rate(c.book, c.period, c.rows, Options{Frozen: frozen})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, sameDecimal); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
		decided += len(frozen.Hours())
	}
	if decided == 0 {
		t.Error("nothing was ever decided")
	}
}

// Later usage moves neither distribution nor supply of frozen hours.
func TestR17LaterUsageMovesNoFrozenHour(t *testing.T) {
	hour := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	frozen := NewFrozen()
	frozen.Cover(hour, hour.Add(time.Hour))
	frozen.Give(hour, "gone", decimal.RequireFromString("1.5"))
	frozen.Give(hour, "", decimal.RequireFromString("-1.5"))
	book := parseBook(t, `currency: USD
versions:
- effective: 2026-01-01T00:00:00Z
  models: {M: {gpu_hour: "2.00"}}
  distribution: proportional
`)
	rows := []Row{
		{Hour: hour, Tenant: "new", Model: "M", Slices: 1, Bucket: "active", SliceMS: 3_600_000},
		{Hour: hour, Model: "M", Slices: 1, Bucket: "free", SliceMS: 3_600_000},
	}
	result, err := Rate(book, Period{2026, time.March}, rows, Options{Frozen: frozen})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, invoice := range result.Invoices {
		got[invoice.Tenant] = invoice.Total.Decimal.String()
	}
	if diff := cmp.Diff(map[string]string{"gone": "1.5", "new": "2"}, got); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	if err := Check(result); err != nil {
		t.Error(err)
	}
}

// Charges sum to every effect of every invoice, and the platform's to its list.
func TestChargesSumToTheEffects(t *testing.T) {
	for seed := range uint64(200) {
		sums := map[string]decimal.Decimal{}
		result, _, _ := rateWithCopies(t, seed, Options{Observe: func(c Charge) {
			if c.Unit != "" && !c.Quantity.Mul(c.UnitPrice).Equal(c.Amount) {
				t.Fatalf("%+v is no product", c)
			}
			key := c.Tenant + "/" + c.Effect
			sums[key] = sums[key].Add(c.Amount)
		}})
		for _, invoice := range result.Invoices {
			for _, effect := range invoice.Effects.Ordered() {
				if got := sums[invoice.Tenant+"/"+effect.Name]; !got.Equal(effect.Amount) {
					t.Fatalf("seed %d, %s of %q: charges sum to %s, want %s", seed, effect.Name, invoice.Tenant, got, effect.Amount)
				}
			}
		}
		if got := sums["/"+EffectList]; !got.Equal(result.Platform.List.Decimal) {
			t.Fatalf("seed %d: the platform's charges sum to %s, want %s", seed, got, result.Platform.List)
		}
	}
}

// A copy of the same usage is the same copy; other usage of the tenant is
// another one, and what was decided stays.
func TestRecopyKeepsWhatWasDecided(t *testing.T) {
	changed := 0
	for seed := range uint64(200) {
		result, copies, c := rateWithCopies(t, seed, Options{})
		for _, invoice := range result.Invoices {
			recopy := func(change func(*Row)) (string, string) {
				var text bytes.Buffer
				r, err := NewRecopy(c.book, c.period, invoice.Tenant, bytes.NewReader(copies[invoice.Tenant].Bytes()), &text)
				if err != nil {
					t.Fatal(err)
				}
				byHour(c.rows, func(hour time.Time, rows []Row) {
					for i := range rows {
						change(&rows[i])
					}
					if err := r.AddHour(hour, rows); err != nil {
						t.Fatal(err)
					}
				})
				hash, err := r.Finish()
				if err != nil {
					t.Fatal(err)
				}
				return hash, text.String()
			}
			hash, text := recopy(func(*Row) {})
			if hash != invoice.UsageHash || text != copies[invoice.Tenant].String() {
				t.Fatalf("seed %d, tenant %q: the copy of the same usage differs:\n%s", seed, invoice.Tenant, cmp.Diff(copies[invoice.Tenant].String(), text))
			}
			if hash, text = recopy(func(row *Row) { row.EnergyMJ++ }); hash != invoice.UsageHash {
				changed++
			}
			if got, want := decidedLines(text), decidedLines(copies[invoice.Tenant].String()); got != want {
				t.Fatalf("seed %d: decided lines changed:\n%s", seed, cmp.Diff(want, got))
			}
		}
	}
	if changed == 0 {
		t.Error("no change was ever seen")
	}
}

func decidedLines(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, `["usage"`) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func byHour(rows []Row, visit func(time.Time, []Row)) {
	hours := map[time.Time][]Row{}
	var order []time.Time
	for _, row := range rows {
		if hours[row.Hour] == nil {
			order = append(order, row.Hour)
		}
		hours[row.Hour] = append(hours[row.Hour], row)
	}
	slices.SortFunc(order, time.Time.Compare)
	for _, hour := range order {
		visit(hour, hours[hour])
	}
}

func TestReadCopyNamesTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "is empty",
		"[\"copy\",2]\n":     `line 1: want ["copy",1], got ["copy",2]`,
		"[\"copy\",1,1]\n":   "line 1: 1 cell",
		"[\"copy\",1]\n{}\n": "line 2: not a JSON array",
		"[\"copy\",1]\n[\"usage\",\"2026-03-01T00:30:00Z\"]\n":               `line 2: hour "2026-03-01T00:30:00Z" is not the start of a UTC hour`,
		"[\"copy\",1]\n[\"usage\",\"2026-03-01T00:00:00Z\",\"p\"]\n":         "line 2: model is missing",
		"[\"copy\",1]\n[\"distribution\",\"2026-03-01T00:00:00Z\",\"x\"]\n":  `line 2: amount "x" is not a decimal`,
		"[\"copy\",1]\n[\"gift\",\"2026-03-01T00:00:00Z\",\"x\"]\n":          `line 2: kind "gift" is neither`,
		"[\"copy\",1]\n[\"supplied\",\"2026-03-01T00:00:00Z\",\"M\",true]\n": "line 2: 1 cell",
	} {
		err := ReadCopy("a", strings.NewReader(text), func(Fact) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `tenant "a"`) {
			t.Errorf("ReadCopy(%q) = %v, want %q", text, err, want)
		}
	}
}

// Names that could be taken for JSON, CSV or line ends come back as they were.
func TestCopyKeepsHostileNames(t *testing.T) {
	name := "=a\r\n\",<b>\u2028\\"
	hour := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	row := Row{Hour: hour, Tenant: name, Project: name, Model: name, Slices: 1, Bucket: "idle", SliceMS: 1, EnergyMJ: -5}
	var text bytes.Buffer
	w := newCopyWriter(&text)
	w.usage(row)
	var got []Fact
	if err := ReadCopy(name, &text, func(f Fact) error { got = append(got, f); return nil }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Fact{{Row: row, Usage: true, Hour: hour}}, got, sameDecimal); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
}

// A copy of another month is refused, not rated in part.
func TestRateCopyRefusesAnotherMonth(t *testing.T) {
	book := parseBook(t, "currency: USD\nversions: [{effective: 2026-01-01T00:00:00Z, models: {M: {gpu_hour: \"1\"}}}]\n")
	text := fmt.Sprintf("[\"copy\",1]\n[\"supplied\",%q,\"M\"]\n", "2026-02-28T23:00:00Z")
	if _, err := RateCopy(book, Period{2026, time.March}, "a", strings.NewReader(text), nil); err == nil || !strings.Contains(err.Error(), "is not in 2026-03") {
		t.Errorf("RateCopy = %v, want a refusal", err)
	}
}

// C7e on what was decided: a freeze sums to zero in every hour, and copies have
// exactly their part of it.
func TestC7eCopiesHaveTheirPartOfWhatWasFrozen(t *testing.T) {
	hour := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	frozen := NewFrozen()
	text := "[\"freeze\",1]\n[\"distribution\",\"2026-03-01T00:00:00Z\",\"\",\"-3\"]\n[\"distribution\",\"2026-03-01T00:00:00Z\",\"a\",\"3\"]\n[\"supplied\",\"2026-03-01T00:00:00Z\",\"M\"]\n"
	if err := frozen.AddFreeze(hour, hour.Add(time.Hour), []byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := frozen.Check(); err != nil {
		t.Error(err)
	}
	const head = "[\"copy\",1]\n"
	for copied, want := range map[string]string{
		head + `["supplied","2026-03-01T00:00:00Z","M"]` + "\n" + `["distribution","2026-03-01T00:00:00Z","3"]` + "\n": "",
		head: "the frozen distribution of 1 hours is missing",
		head + `["distribution","2026-03-01T00:00:00Z","4"]` + "\n":                                                    "is 4, frozen is 3",
		head + `["distribution","2026-03-01T01:00:00Z","3"]` + "\n":                                                    "distribution at 2026-03-01T01:00:00Z",
		head + `["supplied","2026-03-01T00:00:00Z","N"]` + "\n" + `["distribution","2026-03-01T00:00:00Z","3"]` + "\n": "N was not supplied",
	} {
		err := frozen.CheckCopy("a", hour, hour.Add(24*time.Hour), strings.NewReader(copied))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("CheckCopy(%q) = %v, want %q", copied, err, want)
		}
	}
	frozen.Give(hour, "b", decimal.RequireFromString("0.000000001"))
	if err := frozen.Check(); err == nil || !strings.Contains(err.Error(), "sums to 0.000000001") {
		t.Errorf("Check = %v, want the billionth", err)
	}
}

// encoded is a fact as encoding/json writes it.
func encoded(t testing.TB, fact ...any) string {
	t.Helper()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(fact); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// What is written by hand is what encoding/json writes, byte for byte.
func FuzzFactLine(f *testing.F) {
	for _, name := range []string{"", "p", `a "b" \c`, "<a&b>", "\u2028 \u2029", "\xff\xfe", "Zürich\n\x00\x7f", "GPU 😀"} {
		f.Add(name, int64(-1), int64(1_772_323_200))
	}
	var line factLine // as a copy's, from one fact to the next
	f.Fuzz(func(t *testing.T, name string, number, unix int64) {
		hour := time.Unix(unix%4_000_000_000, 0)
		amount := decimal.New(number, -9)
		want := encoded(t, name, hour.UTC().Format(time.RFC3339), name, number, amount.String())
		var got string
		costtest.Within(t, costtest.Time, 1<<20+64*uint64(len(name)), func() {
			got = string(line.begin(name).cell(&hour).cell(&name).cell(&number).cell(&amount).end())
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("line (-want +got):\n%s", diff)
		}
	})
}

// Lines are cut into the cells that encoding/json finds, and refused where it
// refuses them.
func FuzzFactCells(f *testing.F) {
	for _, line := range []string{
		`["usage","2026-10-01T00:00:00Z","p","H100","",0,7,"active",-5,0]`, `[]`, `[ "a" , 1 ]`, `["a\"b",1]`, `["a",01]`, `["a",-]`,
		`["a"`, `["a"]x`, `["a",]`, `[1.5e3,null,[2],{"a":"]"}]`, `["ü"]`, `"a"`, ``, `[-0]`, "[\"\x01\"]", `[1 2]`,
	} {
		f.Add([]byte(line))
	}
	cells := newFactReader() // as a copy's, from one line to the next
	f.Fuzz(func(t *testing.T, line []byte) {
		var want []json.RawMessage
		refused := json.Unmarshal(line, &want)
		var err error
		costtest.Within(t, costtest.Time, 1<<20+16*uint64(len(line)), func() { err = cells.read(line) })
		if (err == nil) != (refused == nil) {
			t.Fatalf("read = %v, encoding/json says %v", err, refused)
		}
		if refused != nil {
			return
		}
		if diff := cmp.Diff(fmt.Sprintf("%q", want), fmt.Sprintf("%q", slices.Clone(cells.cells))); diff != "" {
			t.Errorf("cells (-want +got):\n%s", diff)
		}
		for _, cell := range want {
			var text string
			var number int64
			wantText, wantNumber := json.Unmarshal(cell, &text), json.Unmarshal(cell, &number)
			var got string
			one := factReader{cells: []json.RawMessage{cell, cell}, names: map[string]string{}}
			if err := one.next("name", &got); got != text && wantText == nil || (err == nil) != (wantText == nil) {
				t.Errorf("name of %s: got %q, %v; want %q, %v", cell, got, err, text, wantText)
			}
			var n int64
			if err := one.next("number", &n); n != number && wantNumber == nil || (err == nil) != (wantNumber == nil) {
				t.Errorf("number of %s: got %d, %v; want %d, %v", cell, n, err, number, wantNumber)
			}
		}
	})
}

// benchmarkRow is what a copy has most of.
var benchmarkRow = Row{
	Hour: time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), Project: "project-1", Model: "NVIDIA H100 80GB HBM3", Profile: "1g.10gb",
	ProfileSlices: 1, Slices: 7, Bucket: bucketActive, SliceMS: 123_456_789, EnergyMJ: 987_654,
}

// BenchmarkFacts writes and reads a line of usage, by hand and by encoding/json.
func BenchmarkFacts(b *testing.B) {
	r := benchmarkRow
	text := []byte(strings.TrimSuffix(encoded(b, factUsage, r.Hour.Format(time.RFC3339), r.Project, r.Model, r.Profile, r.ProfileSlices, r.Slices, r.Bucket, r.SliceMS, r.EnergyMJ), "\n"))
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		w := newCopyWriter(nil)
		for b.Loop() {
			w.usage(r)
		}
	})
	b.Run("write by encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		w := newCopyWriter(nil)
		for b.Loop() {
			_, _ = w.hash.Write([]byte(encoded(b, factUsage, r.Hour.Format(time.RFC3339), r.Project, r.Model, r.Profile, r.ProfileSlices, r.Slices, r.Bucket, r.SliceMS, r.EnergyMJ)))
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		cells := newFactReader()
		for b.Loop() {
			var fact Fact
			if err := errors.Join(cells.read(text), copyFormat.parse(cells, &fact)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read by encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var raw []json.RawMessage
			if err := json.Unmarshal(text, &raw); err != nil {
				b.Fatal(err)
			}
			var texts [6]string
			var numbers [4]int64
			for i, to := range []any{&texts[0], &texts[1], &texts[2], &texts[3], &texts[4], &numbers[0], &numbers[1], &texts[5], &numbers[2], &numbers[3]} {
				if err := json.Unmarshal(raw[i], to); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := time.Parse(time.RFC3339, texts[1]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestFrozenHoursAscend, in whatever order they were given.
func TestFrozenHoursAscend(t *testing.T) {
	frozen := NewFrozen()
	first := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for i := range 100 {
		frozen.Give(first.Add(time.Duration(i*37%100)*time.Hour), "a", decimal.RequireFromString("1"))
	}
	hours := frozen.Hours()
	if len(hours) != 100 || !slices.IsSortedFunc(hours, time.Time.Compare) {
		t.Errorf("%d hours, ascending %t", len(hours), slices.IsSortedFunc(hours, time.Time.Compare))
	}
}
