package billing_test

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gpuledger/gpuledger/billing"
	"github.com/gpuledger/gpuledger/billing/invoice"
	"github.com/gpuledger/gpuledger/billing/prices"
	"github.com/gpuledger/gpuledger/internal/check"
	"github.com/gpuledger/gpuledger/internal/clock"
	"github.com/gpuledger/gpuledger/internal/store"
	"github.com/gpuledger/gpuledger/internal/store/storetest"
	"github.com/gpuledger/gpuledger/internal/usage/usagetest"
)

var january = time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)

func held(hour time.Time, gpu, model string, sliceMS uint64) usagetest.GPUHour {
	return usagetest.GPUHour{
		Hour: hour, GPU: gpu, Model: model, Slices: 7,
		Owners: []usagetest.Owner{{Leaf: gpu, Tenant: "ml", Active: sliceMS}},
	}
}

func ledger(t *testing.T) *store.DB {
	t.Helper()
	db := storetest.Open(t)
	usagetest.Insert(t, db, held(january, "GPU-a", "NVIDIA H100 80GB HBM3", 25_200_000),
		held(january.AddDate(0, -1, 0), "GPU-a", "NVIDIA H100 80GB HBM3", 12_600_000))
	return db
}

func newService(t *testing.T, db *store.DB, c clock.Clock) (*billing.Service, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	service, err := billing.New(billing.DefaultConfig(), billing.Deps{
		Drafts: invoice.NewDrafts(db, prices.Default()), Clock: c,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Registry: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	return service, registry
}

func wantMetrics(t *testing.T, registry *prometheus.Registry, want string) {
	t.Helper()
	names := []string{
		"gpuledger_invoice_draft_total", "gpuledger_billing_runs_total", "gpuledger_billing_errors_total",
		"gpuledger_billing_last_run_timestamp_seconds",
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

const help = `# HELP gpuledger_billing_errors_total Months that could not be rated.
# TYPE gpuledger_billing_errors_total counter
# HELP gpuledger_billing_last_run_timestamp_seconds Unix time of the last run in which all months could be rated.
# TYPE gpuledger_billing_last_run_timestamp_seconds gauge
# HELP gpuledger_billing_runs_total Runs in which all months could be rated.
# TYPE gpuledger_billing_runs_total counter
# HELP gpuledger_invoice_draft_total Total of a tenant's draft invoice, in the currency's major unit.
# TYPE gpuledger_invoice_draft_total gauge
`

func TestRunShowsDraftTotals(t *testing.T) {
	fake := clock.NewFake(january)
	service, registry := newService(t, ledger(t), fake)
	if diff := cmp.Diff([]string{"2026-01", "2025-12"}, service.Periods()); diff != "" {
		t.Errorf("periods (-want +got):\n%s", diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx) }()
	if err := fake.BlockUntil(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	wantMetrics(t, registry, help+`gpuledger_billing_errors_total 0
gpuledger_billing_runs_total 1
gpuledger_billing_last_run_timestamp_seconds 1.7680032e+09
gpuledger_invoice_draft_total{currency="USD",period="2025-12",tenant="ml"} 1.24
gpuledger_invoice_draft_total{currency="USD",period="2026-01",tenant="ml"} 2.49
`)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("run = %v, want nil", err)
	}
}

func TestAFailedMonthIsCountedAndKeepsItsTotals(t *testing.T) {
	db := ledger(t)
	service, registry := newService(t, db, clock.NewFake(january))
	if err := service.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	usagetest.Insert(t, db, held(january, "GPU-b", "B300", 1))
	if err := service.RunOnce(t.Context()); err == nil || !strings.Contains(err.Error(), `model "B300"`) {
		t.Errorf("error = %v, want the model named", err)
	}
	wantMetrics(t, registry, help+`gpuledger_billing_errors_total 1
gpuledger_billing_runs_total 1
gpuledger_billing_last_run_timestamp_seconds 1.7680032e+09
gpuledger_invoice_draft_total{currency="USD",period="2025-12",tenant="ml"} 1.24
gpuledger_invoice_draft_total{currency="USD",period="2026-01",tenant="ml"} 2.49
`)
}

func TestOldMonthsLeaveTheMetrics(t *testing.T) {
	fake := clock.NewFake(january)
	service, registry := newService(t, ledger(t), fake)
	for _, want := range []int{2, 0} {
		if err := service.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := testutil.GatherAndCount(registry, "gpuledger_invoice_draft_total")
		if err != nil || got != want {
			t.Errorf("%d totals, %v, want %d", got, err, want)
		}
		fake.Advance(62 * 24 * time.Hour)
	}
}

func TestChecksPassAndSayWhatTheyCompared(t *testing.T) {
	db := ledger(t)
	checks := billing.Checks(invoice.NewDrafts(db, prices.Default()), []string{"2026-01", "2025-12"})
	results, err := check.Run(t.Context(), checks)
	if err != nil || !check.NoneFailed(results) {
		t.Fatalf("%+v, %v, want all to pass", results, err)
	}
	got := []string{results[0].Name, results[0].Figures, results[1].Name, results[1].Figures}
	want := []string{
		"C7", "2026-01: tenants 2.49 + platform 0 + quantity rounding 0 = capacity 2.49 USD; " +
			"2025-12: tenants 1.245 + platform 1.245 + quantity rounding 0 = capacity 2.49 USD",
		"C8", "2 invoices drafted twice",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

// A month without a price has no invoice that could be wrong, and none that
// could be right: neither ok nor FAIL.
func TestChecksProveNothingOfWhatHasNoPrice(t *testing.T) {
	unpriced := ledger(t)
	usagetest.Insert(t, unpriced, held(january, "GPU-b", "B300", 1))
	before := storetest.Open(t)
	usagetest.Insert(t, before, held(time.Date(2019, 12, 1, 0, 0, 0, 0, time.UTC), "GPU-a", "NVIDIA H100 80GB HBM3", 1))
	for name, c := range map[string]struct {
		db      *store.DB
		periods []string
		want    [2]string
	}{
		"a model without a rate": {unpriced, []string{"2026-01", "2025-12"}, [2]string{
			`model "B300"`, "1 invoices drafted twice; 2026-01 has no invoices for want of a price",
		}},
		"usage before the price book": {before, []string{"2019-12"}, [2]string{
			"starts at 2020-01-01T00:00:00Z", "2019-12 has no invoices for want of a price",
		}},
		"an empty ledger": {before, nil, [2]string{"nothing to check: the ledger is empty", "nothing to check: the ledger is empty"}},
	} {
		results, err := check.Run(t.Context(), billing.Checks(invoice.NewDrafts(c.db, prices.Default()), c.periods))
		if err != nil || !check.NoneFailed(results) {
			t.Errorf("%s: got %+v, %v; want none to fail", name, results, err)
		}
		for i, r := range results {
			if r.OK || !r.NotProven || !strings.Contains(r.Figures, c.want[i]) {
				t.Errorf("%s: got %+v, want it not proven: %s", name, r, c.want[i])
			}
		}
	}
}

func TestConfigNamesTheField(t *testing.T) {
	if err := billing.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for want, config := range map[string]billing.Config{
		"interval 0s": {Months: 1}, "months 0": {Interval: time.Minute}, "months 25": {Interval: time.Minute, Months: 25},
	} {
		if _, err := billing.New(config, billing.Deps{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want it to contain %s", err, want)
		}
	}
	if _, err := billing.New(billing.DefaultConfig(), billing.Deps{}); err == nil {
		t.Error("a service without dependencies was made")
	}
}
