package invoice_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/export/focus"
	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/invoice/invoicetest"
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

const zonesBook = `currency: USD
tenants: {kol: {time_zone: Asia/Kolkata}, la: {time_zone: America/Los_Angeles}, kir: {time_zone: Pacific/Kiritimati}}
versions:
- effective: 2026-01-01T00:00:00Z
  models: {H100: {gpu_hour: "2.49", tiers: [{above: "3", gpu_hour: "2.00"}]}}
  distribution: proportional
  tenants:
    la: {discount: "0.10", minimum: "7.00"}
    kir: {fixed_discount: "4.00", reserved: [{model: H100, gpus: "2", unused_gpu_hour: "1.10"}]}
`

var (
	zonesTenants = []string{"la/\n\"a", "kir", "kol", "la", "platform", "utc"}
	zonesMonths  = []string{"2026-02", "2026-03", "2026-04"}
)

// wanderer is a ledger around two ends of months, whose hours change hands.
type wanderer struct {
	t       *testing.T
	rng     *rand.Rand
	db      *store.DB
	r       *invoicetest.Register
	hours   []time.Time
	holder  map[string]string // by hour and GPU; empty: nobody
	version uint64
}

// give hands a GPU's hour to somebody, or to nobody.
func (w *wanderer) give(hour time.Time, gpu string) {
	tenant := ""
	if n := w.rng.IntN(len(zonesTenants) + 2); n < len(zonesTenants) {
		tenant = zonesTenants[n]
	}
	w.version++
	row := gpuHour(hour, gpu)
	row.Version, row.Inputs, row.Epoch = w.version, 360+w.version, uint32(w.version)
	if tenant != "" {
		row.Owners = []usagetest.Owner{{Leaf: gpu, Tenant: tenant, Active: 25_200_000}}
	}
	usagetest.Insert(w.t, w.db, row)
	w.holder[fmt.Sprint(hour.Unix(), gpu)] = tenant
}

// step changes hands, finalises, or decides a note.
func (w *wanderer) step() {
	month := zonesMonths[w.rng.IntN(len(zonesMonths))]
	tenant := zonesTenants[w.rng.IntN(len(zonesTenants))]
	var err error
	switch w.rng.IntN(4) {
	case 0:
		_, err = w.r.Finalise(w.t.Context(), invoice.FinaliseRequest{Period: month, Tenants: []string{tenant}, Who: "x"})
	case 1:
		_, err = w.r.Correct(w.t.Context(), invoice.CorrectRequest{Period: month, Tenant: tenant, Who: "x"})
	default:
		w.give(w.hours[w.rng.IntN(len(w.hours))], fmt.Sprintf("GPU-%d", w.rng.IntN(3)))
	}
	if err != nil && !errors.Is(err, invoice.ErrNotFound) && !errors.Is(err, invoice.ErrNothingToAdjust) {
		w.t.Fatal(err)
	}
}

// close finalises all months, and decides all notes.
func (w *wanderer) close() {
	for _, month := range zonesMonths {
		if _, err := w.r.Finalise(w.t.Context(), invoice.FinaliseRequest{Period: month, Who: "x"}); err != nil {
			w.t.Fatal(err)
		}
		for _, a := range adjustments(w.t, w.r, month) {
			if _, err := w.r.Correct(w.t.Context(), invoice.CorrectRequest{Period: month, Tenant: a.Note.Tenant, Who: "x"}); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// C7d, R17: whatever changes hands between invoices and notes, over ends of
// months in five zones, in the end every tenant's hour is billed once, at its
// list value, by documents that follow from their usage.
func TestC7dHoursThatChangeHandsAreBilledOnce(t *testing.T) {
	seeds := uint64(2)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		w := &wanderer{t: t, rng: rand.New(rand.NewPCG(seed, 7)), db: emptyLedger(t), holder: map[string]string{}}
		w.r = invoicetest.Open(t, w.db, parse(t, zonesBook), invoicetest.Broker(t))
		for _, end := range []time.Time{march, march.AddDate(0, 1, 0)} {
			for _, offset := range []int{-15, -14, -7, -6, -5, -1, 0, 6, 7, 8} {
				w.hours = append(w.hours, end.Add(time.Duration(offset)*time.Hour))
			}
		}
		for _, hour := range w.hours {
			for gpu := range 3 {
				w.give(hour, fmt.Sprintf("GPU-%d", gpu))
			}
		}
		for range 3 {
			for range 12 {
				w.step()
			}
			w.close()
			w.check(seed)
		}
	}
}

func (w *wanderer) check(seed uint64) {
	list, want := map[string]decimal.Decimal{}, map[string]decimal.Decimal{}
	held := map[string]bool{}
	for key, tenant := range w.holder {
		if tenant != "" {
			want[tenant] = want[tenant].Add(decimal.RequireFromString("2.49"))
			held[key[:10]+tenant] = true
		}
	}
	documents := map[string]int{}
	for _, month := range zonesMonths {
		all, err := w.r.List(w.t.Context(), month)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, i := range all.Invoices {
			documents[i.Number] = 1
			if list[i.Tenant] = list[i.Tenant].Add(i.Effects.List); list[i.Tenant].IsZero() {
				delete(list, i.Tenant)
			}
			if i.Status != invoice.StatusFinalised || i.Revision > 0 && !i.Effects.Distribution.IsZero() {
				w.t.Errorf("seed %d: %s is %s, with distribution of %s", seed, i.Number, i.Status, i.Effects.Distribution)
			}
		}
	}
	if diff := cmp.Diff(want, list, cmp.Comparer(decimal.Decimal.Equal)); diff != "" {
		w.t.Errorf("seed %d: list value by tenant (-held +billed):\n%s", seed, diff)
	}
	coverage, err := w.r.Coverage(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if diff := cmp.Diff(invoice.Coverage{Invoiced: int64(len(held))}, *coverage); diff != "" {
		w.t.Errorf("seed %d: coverage (-want +got):\n%s", seed, diff)
	}
	verified := map[string]int{}
	if err := w.r.VerifyAll(w.t.Context(), func(v *invoice.Verdict) error {
		if verified[v.Number]++; !v.Same {
			w.t.Errorf("seed %d: %+v", seed, v)
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	billed := map[string]int{}
	for _, month := range append([]string{"2026-11"}, zonesMonths...) {
		bills, err := w.r.Bills(w.t.Context(), month)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, b := range bills {
			billed[b.Record.Number]++
		}
		if _, err := focus.Write(io.Discard, focus.Options{}, focus.Bills(w.t.Context(), w.r.Register, month)); err != nil {
			w.t.Errorf("seed %d: FOCUS of %s: %v", seed, month, err)
		}
	}
	if diff := cmp.Diff(documents, verified) + cmp.Diff(documents, billed); diff != "" {
		w.t.Errorf("seed %d: documents that are verified, and billed once:\n%s", seed, diff)
	}
	w.t.Logf("seed %d: %d documents, %d hours", seed, len(documents), coverage.Invoiced)
}
