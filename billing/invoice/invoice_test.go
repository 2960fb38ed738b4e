package invoice_test

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

const bookText = `currency: USD
tenants: {kol: {time_zone: Asia/Kolkata}}
skus: {Small: {profile: 1g.10gb}, Large: {gpus: 1}}
versions:
- effective: 2026-01-01T00:00:00Z
  models:
    H100: {gpu_hour: "2.49", profiles: {1g.10gb: "0.40"}}
  kwh: "0.28"
  idle_surcharge: "0.10"
  distribution: proportional
  tenants:
    ml: {discount: "0.50"}
    min: {minimum: "5.00"}
`

var march = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func parse(t *testing.T, text string) *prices.Book {
	t.Helper()
	book, err := prices.Parse("book.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return book
}

func emptyLedger(t *testing.T) *store.DB {
	t.Helper()
	return storetest.Open(t)
}

func ledger(t *testing.T) *store.DB {
	t.Helper()
	db := emptyLedger(t)
	usagetest.Insert(t, db,
		usagetest.GPUHour{
			Hour: march, GPU: "GPU-a", Model: "H100", Slices: 7, PlatformEnergyMJ: 11, UnattributedMJ: 22,
			Unhealthy: 3_600_000, Owners: []usagetest.Owner{
				{Leaf: "m1", Profile: "1g.10gb", ProfileSlices: 1, Tenant: "ml", Project: "p", Active: 1_800_000, Idle: 1_800_000, EnergyMJ: 3_600_000_000},
				{Leaf: "m2", Profile: "2g.20gb", ProfileSlices: 2, Tenant: "unassigned", Unproven: 7_200_000, EnergyMJ: 36},
			},
		},
		usagetest.GPUHour{
			Hour: march.Add(time.Hour), GPU: "GPU-a", Model: "H100", Slices: 7,
			Owners: []usagetest.Owner{{Leaf: "GPU-a", Tenant: "ml", Active: 25_200_000}},
		},
		// 23:30 on 31 March in Kolkata is March there; 00:30 is April.
		usagetest.GPUHour{
			Hour: march.AddDate(0, 1, 0).Add(-6 * time.Hour), GPU: "GPU-a", Model: "H100", Slices: 7,
			Owners: []usagetest.Owner{{Leaf: "GPU-a", Tenant: "kol", Active: 25_200_000}},
		},
		usagetest.GPUHour{
			Hour: march.AddDate(0, 1, 0).Add(-5 * time.Hour), GPU: "GPU-a", Model: "H100", Slices: 7,
			Owners: []usagetest.Owner{{Leaf: "GPU-a", Tenant: "kol", Idle: 25_200_000}},
		},
		usagetest.GPUHour{
			Hour: march.Add(-5 * time.Hour), GPU: "GPU-a", Model: "H100", Slices: 7,
			Owners: []usagetest.Owner{{Leaf: "GPU-a", Tenant: "kol", Unproven: 25_200_000}},
		},
	)
	return db
}

// figure is a decimal of a document.
func figure(text string) (m invoice.Money) {
	if err := m.UnmarshalText([]byte(text)); err != nil {
		panic(err)
	}
	return m
}

func TestListDraftsAMonth(t *testing.T) {
	month, err := invoice.NewDrafts(ledger(t), parse(t, bookText)).List(t.Context(), "2026-03")
	if err != nil {
		t.Fatal(err)
	}
	type summary struct{ Number, Hours, Active, Idle, Unproven, From, Total string }
	var got []summary
	for _, i := range month.Invoices {
		got = append(got, summary{i.Number, i.GPUHours.String(), i.Buckets.Active.String(), i.Buckets.Idle.String(), i.Buckets.Unproven.String(), i.From.Format(time.RFC3339), i.Total.String()})
	}
	want := []summary{
		{"2026-03-kol-r0", "2.000000000", "1.000000000", "0.000000000", "1.000000000", "2026-02-28T19:00:00Z", "4.98"},
		{"2026-03-min-r0", "0.000000000", "0.000000000", "0.000000000", "0.000000000", "2026-03-01T00:00:00Z", "5.00"},
		{"2026-03-ml-r0", "1.142857142", "1.071428571", "0.071428571", "0.000000000", "2026-03-01T00:00:00Z", "2.10"},
		{"2026-03-unassigned-r0", "0.285714286", "0.000000000", "0.000000000", "0.285714286", "2026-03-01T00:00:00Z", "1.42"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("invoices (-want +got):\n%s", diff)
	}
}

var update = flag.Bool("update", false, "rewrite the documents in testdata")

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
}

// 1g.10gb at 0.40 an hour replaces a seventh of 2.49; three free slices of the
// first hour are shared 1:2 with the tenant unassigned.
func TestShowExplainsATenantsMonth(t *testing.T) {
	drafts := invoice.NewDrafts(ledger(t), parse(t, bookText))
	got, err := drafts.Show(t.Context(), "2026-03", "ml")
	if err != nil {
		t.Fatal(err)
	}
	body, err := invoice.Canonical(got)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/ml.json", body)
	if _, err := drafts.Show(t.Context(), "2026-03", "nobody"); !errors.Is(err, invoice.ErrNotFound) {
		t.Errorf("error = %v, want %v", err, invoice.ErrNotFound)
	}
	if _, err := drafts.Show(t.Context(), "March", "ml"); err == nil || !strings.Contains(err.Error(), `"March"`) {
		t.Errorf("error = %v, want the period named", err)
	}
}

func TestDocumentsAreTheSameBytes(t *testing.T) {
	db, book := ledger(t), parse(t, bookText)
	draft := func() []byte {
		month, err := invoice.NewDrafts(db, book).List(t.Context(), "2026-03")
		if err != nil {
			t.Fatal(err)
		}
		body, err := invoice.Canonical(month)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	first := draft()
	// A new version of a row that says the same changes nothing.
	usagetest.Insert(t, db, usagetest.GPUHour{
		Hour: march.Add(time.Hour), GPU: "GPU-a", Model: "H100", Slices: 7, Version: 9,
		Owners: []usagetest.Owner{{Leaf: "GPU-a", Tenant: "ml", Active: 25_200_000}},
	})
	if diff := cmp.Diff(string(first), string(draft())); diff != "" {
		t.Errorf("C8: documents differ:\n%s", diff)
	}
	usagetest.Insert(t, db, usagetest.GPUHour{
		Hour: march.Add(time.Hour), GPU: "GPU-a", Model: "H100", Slices: 7, Version: 10,
		Owners: []usagetest.Owner{{Leaf: "GPU-a", Tenant: "ml", Active: 25_199_999}},
	})
	if string(first) == string(draft()) {
		t.Error("other usage gave the same document")
	}
}

func TestPlatformsAccountConservesCapacity(t *testing.T) {
	month, err := invoice.NewDrafts(ledger(t), parse(t, bookText)).List(t.Context(), "2026-03")
	if err != nil {
		t.Fatal(err)
	}
	got := month.Platform
	got.Lines = nil
	// Four GPU-hours of capacity in the UTC month: 9.96 by list.
	want := invoice.Platform{
		GPUHours: figure("0.571428572"), List: figure("1.42285714428"), QuantityRounding: figure("0"), Distribution: figure("-1.067142858"),
		EnergyMJ: figure("11"), UnattributedEnergyMJ: figure("22"), TenantsList: figure("8.53714285572"), CapacityList: figure("9.96"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("platform (-want +got):\n%s", diff)
	}
}

func TestAnEmptyLedgerHasNoInvoices(t *testing.T) {
	month, err := invoice.NewDrafts(storetest.Open(t), prices.Default()).List(t.Context(), "2026-03")
	if err != nil || len(month.Invoices) != 0 {
		t.Errorf("%v, %v, want no invoices", month, err)
	}
}
