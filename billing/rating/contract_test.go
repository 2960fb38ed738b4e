package rating

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
)

const contract = "../../testdata/contract/money"

// sameDecimal compares by value: trailing zeros don't matter.
var sameDecimal = cmp.Comparer(func(a, b decimal.Decimal) bool { return a.Equal(b) })

// figures leaves the lines to CheckLines, and compares by value: a case says what
// is owed, not how many places it is written with, nor by which book.
var figures = cmp.Options{cmp.FilterPath(func(p cmp.Path) bool {
	return slices.Contains([]string{".Lines", ".UsageHash", ".PriceHash", ".TimeZone", ".From", ".To", ".Buckets"}, p.Last().String())
}, cmp.Ignore()), sameDecimal, cmp.Comparer(func(a, b Money) bool { return a.Decimal.Equal(b.Decimal) })}

func readCase(t *testing.T, name string) (*prices.Book, []Row) {
	t.Helper()
	book, err := prices.Load(filepath.Join(contract, name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(filepath.Join(contract, name+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := ReadCSV(file)
	if err != nil {
		t.Fatal(err)
	}
	return book, rows
}

func TestContractCasesEffectByEffect(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(contract, "*.json"))
	if err != nil || len(files) != 20 {
		t.Fatalf("found %d cases, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			book, rows := readCase(t, name)
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want []Invoice
			if err := json.Unmarshal(data, &want); err != nil {
				t.Fatal(err)
			}
			result, err := Rate(book, Period{2026, 3}, rows, Options{Simulate: true})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, result.Invoices, figures); diff != "" {
				t.Errorf("invoices (-want +got):\n%s", diff)
			}
			if err := Check(result); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPlatformAccountOfSevenths(t *testing.T) {
	book, rows := readCase(t, "sevenths")
	result, err := Rate(book, Period{2026, 3}, rows, Options{Simulate: true})
	if err != nil {
		t.Fatal(err)
	}
	// 3 × 0.142857143 and 0.571428571 of one GPU-hour: together exactly one.
	want := Platform{
		List: Exact(decimal.RequireFromString("1.42285714179")), GPUHours: Exact(decimal.RequireFromString("0.571428571")),
	}
	if diff := cmp.Diff(want, result.Platform, figures); diff != "" {
		t.Errorf("platform (-want +got):\n%s", diff)
	}
}

func TestPlatformKeepsWhatRoundingLeaves(t *testing.T) {
	book, rows := readCase(t, "supply_thirds")
	result, err := Rate(book, Period{2026, 3}, rows, Options{Simulate: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := result.Platform.QuantityRounding, decimal.RequireFromString("0.00000000249"); !got.Decimal.Equal(want) {
		t.Errorf("quantity rounding = %s, want %s", got, want)
	}
}
