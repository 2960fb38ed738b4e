package export_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/export"
	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

const bookText = `currency: USD
versions:
- effective: 2026-01-01T00:00:00Z
  models: {H100: {gpu_hour: "2.49", profiles: {1g.10gb: "0.40"}, tiers: [{above: "1", gpu_hour: "1.11"}]}}
  kwh: "0.28"
  idle_surcharge: "0.10"
  distribution: proportional
  tenants: {a: {discount: "0.15", fixed_discount: "0.50", minimum: "9.99"}}
`

func month(t *testing.T) *invoice.Month {
	t.Helper()
	db := storetest.Open(t)
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for i := range 3 {
		usagetest.Insert(t, db, usagetest.GPUHour{
			Hour: start.Add(time.Duration(i) * time.Hour), GPU: "GPU-a", Model: "H100", Slices: 7,
			Owners: []usagetest.Owner{
				{Leaf: "m1", Profile: "1g.10gb", ProfileSlices: 1, Tenant: "a", Project: "+p, \"quoted\"", Active: 1_234_567, EnergyMJ: 777_777_777},
				{Leaf: "m2", Profile: "2g.20gb", ProfileSlices: 2, Tenant: "a", Idle: 6_543_210},
				{Leaf: "m3", Profile: "3g.40gb", ProfileSlices: 3, Tenant: "=HYPERLINK(1)", Unproven: 10_800_000},
			},
		})
	}
	book, err := prices.Parse("book.yaml", []byte(bookText))
	if err != nil {
		t.Fatal(err)
	}
	drafted, err := invoice.NewDrafts(db, book).List(t.Context(), "2026-03")
	if err != nil {
		t.Fatal(err)
	}
	return drafted
}

func TestChargebackSumsToTheInvoices(t *testing.T) {
	drafted := month(t)
	path, err := export.Chargeback(t.TempDir(), drafted)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, name := range records[0] {
		column[name] = i
	}
	sums, effects := map[string]decimal.Decimal{}, map[string]bool{}
	for _, record := range records[1:] {
		number := record[column["invoice"]]
		sums[number] = sums[number].Add(decimal.RequireFromString(record[column["amount"]]))
		effects[record[column["effect"]]] = true
	}
	for _, i := range drafted.Invoices {
		if got := sums[i.Number].StringFixed(2); got != i.Total.String() {
			t.Errorf("rows of %s sum to %s, want the total %s", i.Number, got, i.Total)
		}
	}
	if len(effects) < 9 {
		t.Errorf("only the effects %v have rows", effects)
	}
}

// The platform's rows are marked, and with the tenants' list values they are
// the capacity's.
func TestChargebackHasThePlatformsAccount(t *testing.T) {
	drafted := month(t)
	var out strings.Builder
	if err := export.WriteChargeback(&out, drafted); err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, name := range records[0] {
		column[name] = i
	}
	capacity, tenants := decimal.Zero, decimal.Zero
	platform := map[string]string{}
	for _, record := range records[1:] {
		amount := decimal.RequireFromString(record[column["amount"]])
		effect := record[column["effect"]]
		if effect == "list" || effect == "quantity_rounding" {
			capacity = capacity.Add(amount)
		}
		if record[column["status"]] != export.StatusPlatform {
			tenants = tenants.Add(amount)
			continue
		}
		if record[column["invoice"]]+record[column["tenant"]] != "" {
			t.Errorf("a platform row has invoice %q, tenant %q", record[column["invoice"]], record[column["tenant"]])
		}
		platform[effect+" "+record[column["bucket"]]] = amount.String()
	}
	want := map[string]string{
		"list free": drafted.Platform.List.String(), "distribution ": drafted.Platform.Distribution.String(),
		// quantities of this month leave nothing: no row
	}
	if diff := cmp.Diff(want, platform); diff != "" {
		t.Errorf("the platform's amounts (-want +got):\n%s", diff)
	}
	if got := capacity.RoundBank(18).String(); got != drafted.Platform.CapacityList.String() {
		t.Errorf("list values sum to %s, want the capacity's %s", got, drafted.Platform.CapacityList)
	}
	owed := decimal.Zero
	for _, i := range drafted.Invoices {
		owed = owed.Add(i.Total.Decimal)
	}
	if !tenants.Equal(owed) {
		t.Errorf("rows of tenants sum to %s, want the invoices' %s", tenants, owed)
	}
}

func TestChargebackIsSafeToOpen(t *testing.T) {
	var out strings.Builder
	if err := export.WriteChargeback(&out, month(t)); err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	numeric := map[string]bool{"quantity": true, "unit_price": true, "amount": true}
	quoted := 0
	for _, record := range records[1:] {
		for i, cell := range record {
			if numeric[records[0][i]] {
				if _, err := decimal.NewFromString(cell); err != nil && cell != "" {
					t.Errorf("%s %q is not a number", records[0][i], cell)
				}
				continue
			}
			if cell != "" && strings.ContainsRune("=+-@", rune(cell[0])) {
				t.Errorf("cell %q can be taken for a formula", cell)
			}
			if cell == "'=HYPERLINK(1)" || cell == `'+p, "quoted"` {
				quoted++
			}
		}
	}
	if quoted == 0 {
		t.Error("no dangerous cell was tried")
	}
	if !strings.HasSuffix(out.String(), "\r\n") {
		t.Error("lines don't end in CRLF")
	}
}

func TestChargebackReplacesTheFileWhole(t *testing.T) {
	dir := t.TempDir()
	drafted := &invoice.Month{Period: "2026-03"}
	want := filepath.Join(dir, "export", "chargeback-2026-03.csv")
	for range 2 {
		path, err := export.Chargeback(dir, drafted)
		if err != nil || path != want {
			t.Fatalf("path = %q, %v, want %q", path, err, want)
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, "export"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if diff := cmp.Diff([]string{"chargeback-2026-03.csv"}, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestChargebackErrors(t *testing.T) {
	if _, err := export.Chargeback(t.TempDir(), &invoice.Month{Period: "../x"}); err == nil {
		t.Error("a period that is a path was taken")
	}
	occupied := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(occupied, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := export.Chargeback(occupied, &invoice.Month{Period: "2026-03"}); err == nil {
		t.Error("a file was taken for a directory")
	}
	full := errors.New("disk full")
	err := export.WriteChargeback(failing{full}, &invoice.Month{Period: "2026-03"})
	if !errors.Is(err, full) {
		t.Errorf("error = %v, want %v", err, full)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
