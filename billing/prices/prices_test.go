package prices

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/costtest"
)

const full = `currency: EUR
time_zone: UTC
tenants:
  ml-train: {time_zone: Europe/Berlin}
skus: {Small: {profile: 1g.10gb}, Large: {gpus: 1}}
versions:
- effective: 2026-02-01T00:00:00Z
  models:
    H100: {gpu_hour: "2.00"}
- effective: 2026-01-01T00:00:00Z
  tenants:
    ml-train:
      discount: "0.20"
      fixed_discount: "100.00"
      minimum: "500.00"
      reserved: [{model: H100, gpus: "4", unused_gpu_hour: "1.80"}]
  models:
    H100:
      gpu_hour: "2.49"
      profiles: {1g.10gb: "0.40"}
      tiers: [{above: "1100", gpu_hour: "2.00"}, {above: "1000", gpu_hour: "2.20"}]
  kwh: "0.28"
  idle_surcharge: "0.10"
  distribution: proportional
`

func TestParseReadsEveryKey(t *testing.T) {
	book, err := Parse("book.yaml", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	first := book.Versions[0]
	got := []string{
		book.Currency, book.Zone.String(), book.Location("ml-train").String(), book.Location("other").String(),
		book.SKUName("1g.10gb"), book.SKUName(""), book.SKUName("3g.40gb"),
		first.Effective.Format(time.RFC3339), first.Models["H100"].GPUHour.String(),
		first.Models["H100"].Profiles["1g.10gb"].String(), first.Models["H100"].Tiers[0].Above.String(),
		first.KWh.String(), first.IdleSurcharge.String(),
		first.Tenants["ml-train"].Minimum.String(), first.Tenants["ml-train"].Reserved[0].UnusedGPUHour.String(),
	}
	want := []string{
		"EUR", "UTC", "Europe/Berlin", "UTC", "Small", "Large", "",
		"2026-01-01T00:00:00Z", "2.49", "0.4", "1000", "0.28", "0.1", "500", "1.8",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("book (-want +got):\n%s", diff)
	}
	if !first.Proportional || !first.Tenants["ml-train"].HasMinimum || book.MinorUnit != 2 || len(book.Hash) != 64 {
		t.Errorf("proportional, minimum, minor unit, hash = %v %v %d %q",
			first.Proportional, first.Tenants["ml-train"].HasMinimum, book.MinorUnit, book.Hash)
	}
}

func TestAtFindsTheVersionOfAnHour(t *testing.T) {
	book, err := Parse("book.yaml", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	for hour, want := range map[string]int{
		"2025-12-31T23:00:00Z": -1, "2026-01-01T00:00:00Z": 0, "2026-01-31T23:00:00Z": 0,
		"2026-02-01T00:00:00Z": 1, "2030-01-01T00:00:00Z": 1,
	} {
		at, err := time.Parse(time.RFC3339, hour)
		if err != nil {
			t.Fatal(err)
		}
		if got := book.At(at); got != want {
			t.Errorf("version at %s = %d, want %d", hour, got, want)
		}
	}
}

func TestParseNamesLineKeyAndValue(t *testing.T) {
	cases := []struct{ name, old, new, want string }{
		{"unknown key", "currency: EUR", "currency: EUR\ncolour: red", `b.yaml:2: colour: unknown key`},
		{"bad currency", "EUR", "EUX", `b.yaml:1: currency: "EUX" is not`},
		{"number as currency", "EUR", "978", `b.yaml:1: currency: "978" is not`},
		{"wrong zone", "time_zone: UTC", "time_zone: Mars/Base", `b.yaml:2: time_zone: "Mars/Base" is not`},
		{"local zone", "time_zone: UTC", "time_zone: Local", `b.yaml:2: time_zone: "Local" is not`},
		{"tenant's zone", "Europe/Berlin", "Berlin", `b.yaml:4: tenants.ml-train.time_zone: "Berlin" is not`},
		{"tenant's unknown key", "{time_zone: Europe/Berlin}", "{zone: UTC}", `b.yaml:4: tenants.ml-train.zone: unknown key`},
		{"minor unit", "time_zone: UTC", `minor_unit: "2"`, `b.yaml:2: minor_unit: want a whole number of 32 bits, got "2"`},
		{"negative", `"0.28"`, `"-0.28"`, `b.yaml:22: versions[1].kwh: "-0.28" is not a non-negative decimal`},
		{"exponent", `"0.28"`, `"1e3"`, `"1e3" is not a non-negative decimal`},
		{"point without digits", `"0.28"`, `".5"`, `".5" is not a non-negative decimal`},
		{"unquoted", `"0.28"`, `0.28`, `b.yaml:22: versions[1].kwh: 0.28 must be quoted`},
		{"list for number", `"0.28"`, `["0.28"]`, `kwh: a list is not a number`},
		{"empty number", `kwh: "0.28"`, `kwh:`, `kwh: nothing must be quoted`},
		{"share above one", `"0.20"`, `"20"`, `versions[1].tenants.ml-train.discount: "20" is more than 1`},
		{"surcharge above one", `"0.10"`, `"1.01"`, `idle_surcharge: "1.01" is more than 1`},
		{"duplicate tier", `above: "1100"`, `above: "1000.0"`, `b.yaml:21: versions[1].models.H100.tiers[1].above: two tiers above 1000`},
		{"reserved twice", `"1.80"}]`, `"1.80"}, {model: H100, gpus: "1", unused_gpu_hour: "1"}]`, `reserved[1].model: "H100" is reserved twice`},
		{"reserved unpriced", `{model: H100,`, `{model: H200,`, `b.yaml:16: versions[1].tenants.ml-train.reserved[0].model: "H200" has no rate`},
		{"one instant", "2026-02-01T00", "2026-01-01T00", `versions[1].effective: two versions at 2026-01-01T00:00:00Z, the other in line 7`},
		{"one instant, two offsets", "2026-02-01T00:00:00Z", "2026-01-01T01:00:00+01:00", `two versions at 2026-01-01T00:00:00Z`},
		{"not an hour", "2026-02-01T00:00", "2026-02-01T00:30", `2026-02-01T00:30:00Z is not the start of a UTC hour`},
		{"not a time", "2026-02-01T00:00:00Z", "2026-02-01", `b.yaml:7: versions[0].effective: 2026-02-01 is not an RFC 3339 time`},
		{"distribution", "proportional", "fair", `b.yaml:24: versions[1].distribution: "fair" is neither`},
		{"twice the key", `kwh: "0.28"`, "kwh: \"0.28\"\n  kwh: \"0.29\"", `b.yaml:23: versions[1].kwh: the key is already on line 22`},
		{"missing rate", `{gpu_hour: "2.00"}`, `{}`, `b.yaml:9: versions[0].models.H100.gpu_hour: key is missing`},
		{"sku of both", "{gpus: 1}", "{gpus: 1, profile: x}", `skus.Large: a SKU names either`},
		{"sku twice", "{gpus: 1}", "{profile: 1g.10gb}", `skus.Large: is the same as SKU "Small"`},
		{"sku without gpus", "{gpus: 1}", "{gpus: 0}", `skus.Large.gpus: 0 is not a whole number`},
		{"minor unit beyond", "time_zone: UTC", "minor_unit: 10", `b.yaml:2: minor_unit: 10 is not an integer in 0…9`},
		{"nameless model", `H100: {gpu_hour: "2.00"}`, `"": {gpu_hour: "2.00"}`, `b.yaml:9: versions[0].models: want a plain key`},
		{"null book", "skus: {Small: {profile: 1g.10gb}, Large: {gpus: 1}}", "skus: {Small: }", `skus.Small: a SKU names either`},
		{"sku's gpus", "{gpus: 1}", "{gpus: none}", `skus.Large.gpus: want a whole number of 64 bits, got "none"`},
		{"mapping wanted", "skus: {Small: {profile: 1g.10gb}, Large: {gpus: 1}}", "skus: [1]", `skus: want a mapping of keys, got a list`},
		{"dotted key", `{1g.10gb: "0.40"}`, `{1g.10gb: x}`, `profiles."1g.10gb": "x" is not`},
		{"second document", "currency: EUR", "a: 1\n---\ncurrency: EUR", "a second document"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(full, c.old, c.new, 1)
			if text == full {
				t.Fatalf("%q does not occur", c.old)
			}
			_, err := Parse("b.yaml", []byte(text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want it to contain %s", err, c.want)
			}
		})
	}
}

func TestParseReportsAllErrorsAtOnce(t *testing.T) {
	text := strings.NewReplacer("EUR", "EURO", `"0.28"`, `"x"`).Replace(full)
	_, err := Parse("b.yaml", []byte(text))
	if err == nil || !strings.Contains(err.Error(), "currency") || !strings.Contains(err.Error(), "kwh") {
		t.Errorf("error = %v, want both currency and kwh named", err)
	}
}

func TestParseRefusesWhatIsNoBook(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "the file is empty",
		"currency: USD":                 "versions: key is missing",
		"currency: USD\nversions: []":   "at least one version",
		"[1]":                           "want a mapping of keys, got a list",
		"currency: {a: b}\nversions: 1": `versions: want a list, got 1`,
		"a: [":                          "parse price book",
	} {
		if _, err := Parse("b.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error of %q = %v, want it to contain %s", text, err, want)
		}
	}
}

// noCurrency is what ISO 4217 writes where no currency is meant.
var noCurrency = strings.Repeat("X", 3)

func TestMinorUnitIsTheCurrencysOwn(t *testing.T) {
	for code, want := range map[string]int32{"USD": 2, "JPY": 0, "KWD": 3} {
		if got, ok := minorUnit(code); !ok || got != want {
			t.Errorf("minor unit of %s = %d %v, want %d", code, got, ok, want)
		}
	}
	for _, code := range []string{"", "US", "USD ", "usd", noCurrency, "D A"} {
		if _, ok := minorUnit(code); ok {
			t.Errorf("%q taken for a currency", code)
		}
	}
}

func TestDefaultBookPricesTheDemoFleet(t *testing.T) {
	book := Default()
	version := book.Versions[book.At(time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC))]
	for _, model := range []string{"NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB"} {
		if !version.Models[model].GPUHour.IsPositive() {
			t.Errorf("model %q has no rate", model)
		}
	}
	if book.Currency != "USD" || book.MinorUnit != 2 {
		t.Errorf("currency = %s with %d places, want USD with 2", book.Currency, book.MinorUnit)
	}
}

func TestLoadReadsTheContractsBooks(t *testing.T) {
	files, err := filepath.Glob("../../testdata/contract/money/*.yaml")
	if err != nil || len(files) < 19 {
		t.Fatalf("found %d books, %v", len(files), err)
	}
	for _, file := range files {
		if _, err := Load(file); err != nil {
			t.Errorf("load %s: %v", file, err)
		}
	}
	if _, err := Load("missing.yaml"); err == nil {
		t.Error("a missing file was loaded")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte("a: &a [*a]"))
	for _, text := range hostileBooks() {
		f.Add([]byte(text[:min(len(text), 4<<10)]))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var book *Book
		var err error
		costtest.Within(t, costtest.Time, 64<<20+4<<10*uint64(len(data)), func() { book, err = Parse("fuzz.yaml", data) })
		if err == nil && (len(book.Versions) == 0 || book.Currency == "") {
			t.Errorf("a book without versions or currency was accepted: %q", data)
		}
	})
}
