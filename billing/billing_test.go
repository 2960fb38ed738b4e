package billing_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gputally/gputally/billing"
	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/invoice/invoicetest"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/usage/usagetest"
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
		Register: invoicetest.Open(t, db, prices.Default(), invoicetest.Broker(t)).Register, Project: nothingToProject, Clock: c,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Registry: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	return service, registry
}

func nothingToProject(context.Context) (int64, error) { return 0, nil }

// drafts are by the built-in book, of a ledger in which nothing is decided.
func drafts(db *store.DB) billing.Drafts {
	return func(context.Context, string) (*invoice.Drafts, error) {
		return invoice.NewDrafts(db, prices.Default()), nil
	}
}

func wantMetrics(t *testing.T, registry *prometheus.Registry, want string) {
	t.Helper()
	names := []string{
		"gputally_invoice_draft_total", "gputally_billing_runs_total", "gputally_billing_errors_total",
		"gputally_billing_last_run_timestamp_seconds",
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

const help = `# HELP gputally_billing_errors_total Months that could not be rated.
# TYPE gputally_billing_errors_total counter
# HELP gputally_billing_last_run_timestamp_seconds Unix time of the last run in which all months could be rated.
# TYPE gputally_billing_last_run_timestamp_seconds gauge
# HELP gputally_billing_runs_total Runs in which all months could be rated.
# TYPE gputally_billing_runs_total counter
# HELP gputally_invoice_draft_total Total of a tenant's draft invoice, in the currency's major unit.
# TYPE gputally_invoice_draft_total gauge
`

func TestRunShowsDraftTotals(t *testing.T) {
	fake := clock.NewFake(january)
	service, registry := newService(t, ledger(t), fake)
	periods, err := service.Periods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"2026-01", "2025-12"}, periods); diff != "" {
		t.Errorf("periods (-want +got):\n%s", diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx) }()
	if err := fake.BlockUntil(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	wantMetrics(t, registry, help+`gputally_billing_errors_total 0
gputally_billing_runs_total 1
gputally_billing_last_run_timestamp_seconds 1.7680032e+09
gputally_invoice_draft_total{currency="USD",period="2025-12",tenant="ml"} 1.24
gputally_invoice_draft_total{currency="USD",period="2026-01",tenant="ml"} 2.49
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
	if err := db.Exec(t.Context(), "RENAME TABLE usage_hourly TO elsewhere"); err != nil {
		t.Fatal(err)
	}
	if err := service.RunOnce(t.Context()); err == nil {
		t.Error("a run without a ledger succeeded")
	}
	wantMetrics(t, registry, help+`gputally_billing_errors_total 2
gputally_billing_runs_total 1
gputally_billing_last_run_timestamp_seconds 1.7680032e+09
gputally_invoice_draft_total{currency="USD",period="2025-12",tenant="ml"} 1.24
gputally_invoice_draft_total{currency="USD",period="2026-01",tenant="ml"} 2.49
`)
}

// The month goes on, and what is left out of it is counted.
func TestH8DraftsOfAModelWithoutARateAreCounted(t *testing.T) {
	db := ledger(t)
	service, registry := newService(t, db, clock.NewFake(january))
	usagetest.Insert(t, db, held(january.Add(time.Hour), "GPU-b", "B300", 1))
	if err := service.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = `# HELP gputally_invoice_drafts_withheld Drafts of tenants, and the platform's account, of which hours are left out: without a rate, or not billable.
# TYPE gputally_invoice_drafts_withheld gauge
gputally_invoice_drafts_withheld{period="2026-01",reason="no_rate"} 2
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "gputally_invoice_drafts_withheld"); err != nil {
		t.Error(err)
	}
}

// R6: each run notes the mappings that the ledger was published under since.
func TestR6RunsNoteNewMappings(t *testing.T) {
	db := ledger(t)
	service, registry := newService(t, db, clock.NewFake(january))
	for epoch := range uint32(2) {
		if err := db.Exec(t.Context(), `INSERT INTO epochs (epoch, rules, mapping, tenants, effective, created_at) VALUES (?, 1, ?, '', '1971-01-01 00:00:00', now64(3))`,
			epoch+1, decisions.Digest(nil)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := service.RunOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		want := fmt.Sprintf("# HELP gputally_billing_mappings_noted_total Tenant mappings of the ledger's epochs that were recorded as decisions (R6).\n"+
			"# TYPE gputally_billing_mappings_noted_total counter\ngputally_billing_mappings_noted_total %d\n", epoch+1)
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "gputally_billing_mappings_noted_total"); err != nil {
			t.Error(err)
		}
	}
}

func TestOldMonthsLeaveTheMetrics(t *testing.T) {
	fake := clock.NewFake(january)
	service, registry := newService(t, ledger(t), fake)
	for _, want := range []int{2, 0} {
		if err := service.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := testutil.GatherAndCount(registry, "gputally_invoice_draft_total")
		if err != nil || got != want {
			t.Errorf("%d totals, %v, want %d", got, err, want)
		}
		fake.Advance(62 * 24 * time.Hour)
	}
}

func TestChecksPassAndSayWhatTheyCompared(t *testing.T) {
	db := ledger(t)
	checks := billing.Checks(drafts(db), nil, []string{"2026-01", "2025-12"})
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

// What has no price can't be wrong, and can't be right: neither ok nor FAIL.
func TestChecksProveNothingOfWhatHasNoPrice(t *testing.T) {
	unpriced := ledger(t)
	usagetest.Insert(t, unpriced, held(january, "GPU-b", "B300", 1))
	before := storetest.Open(t)
	usagetest.Insert(t, before, held(time.Date(2019, 12, 1, 0, 0, 0, 0, time.UTC), "GPU-a", "NVIDIA H100 80GB HBM3", 1))
	for name, c := range map[string]struct {
		db      *store.DB
		periods []string
		want    [2]string // of what is not proven; empty: it is ok
	}{
		"a model without a rate":      {unpriced, []string{"2026-01", "2025-12"}, [2]string{`model "B300"`, ""}},
		"usage before the price book": {before, []string{"2019-12"}, [2]string{"starts at 2020-01-01T00:00:00Z", "2019-12 has no invoices, since a price is missing"}},
		"an empty ledger":             {before, nil, [2]string{"nothing to check: the ledger is empty", "nothing to check: the ledger is empty"}},
	} {
		results, err := check.Run(t.Context(), billing.Checks(drafts(c.db), nil, c.periods))
		if err != nil || !check.NoneFailed(results) {
			t.Errorf("%s: got %+v, %v; want none to fail", name, results, err)
		}
		for i, r := range results {
			if want := c.want[i]; r.NotProven != (want != "") || !strings.Contains(r.Figures, want) {
				t.Errorf("%s: got %+v, want it not proven: %q", name, r, want)
			}
		}
	}
}

// Finalised invoices are shown with their notes, and what changed since is
// counted until a note settles it.
func TestPendingAdjustmentsAreCounted(t *testing.T) {
	db := ledger(t)
	register := invoicetest.Open(t, db, prices.Default(), invoicetest.Broker(t))
	registry := prometheus.NewRegistry()
	service, err := billing.New(billing.DefaultConfig(), billing.Deps{
		Register: register.Register, Project: nothingToProject, Clock: clock.NewFake(january), Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Registry: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := func(text string) {
		t.Helper()
		if err := service.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := testutil.GatherAndCompare(registry, strings.NewReader(text), "gputally_billing_pending_adjustments", "gputally_invoice_finalised_total"); err != nil {
			t.Error(err)
		}
	}
	const heads = `# HELP gputally_billing_pending_adjustments Finalised invoices of a month whose usage the ledger no longer says (R17).
# TYPE gputally_billing_pending_adjustments gauge
gputally_billing_pending_adjustments{period="2025-12"} %d
# HELP gputally_invoice_finalised_total Total of a tenant's finalised invoice or note, in the currency's major unit.
# TYPE gputally_invoice_finalised_total gauge
gputally_invoice_finalised_total{currency="USD",kind="invoice",period="2025-12",revision="0",tenant="ml"} 1.24
`
	if _, err := register.Finalise(t.Context(), invoice.FinaliseRequest{Period: "2025-12", Who: "finance"}); err != nil {
		t.Fatal(err)
	}
	want(fmt.Sprintf(heads, 0))
	more := held(january.AddDate(0, -1, 0), "GPU-a", "NVIDIA H100 80GB HBM3", 25_200_000)
	more.Version, more.Inputs = 2, 1
	usagetest.Insert(t, db, more)
	want(fmt.Sprintf(heads, 1))
	if _, err := register.Correct(t.Context(), invoice.CorrectRequest{Period: "2025-12", Tenant: "ml", Who: "finance"}); err != nil {
		t.Fatal(err)
	}
	want(fmt.Sprintf(heads, 0) + `gputally_invoice_finalised_total{currency="USD",kind="debit_note",period="2025-12",revision="1",tenant="ml"} 1.25
`)
}

// C7d and C8 see decided invoices that don't follow from their usage, or whose
// usage is of another month.
func TestC8SeesAForgedInvoice(t *testing.T) {
	db := ledger(t)
	register := invoicetest.Open(t, db, prices.Default(), invoicetest.Broker(t))
	checks := billing.Checks(register.Drafts, register.Register, []string{"2026-01", "2025-12"})
	run := func() []check.Result {
		results, err := check.Run(t.Context(), checks)
		if err != nil {
			t.Fatal(err)
		}
		return results
	}
	if _, err := register.Finalise(t.Context(), invoice.FinaliseRequest{Period: "2025-12", Who: "finance"}); err != nil {
		t.Fatal(err)
	}
	if results := run(); !check.NoneFailed(results) || !strings.Contains(results[0].Figures, "1 invoiced, 1 unbilled, 0 in pending") ||
		!strings.Contains(results[1].Figures, "1 finalised invoices and notes recomputed") {
		t.Fatalf("%+v, want all to pass", results)
	}
	var honest decisions.Invoice
	register.Decisions.View(func(state *decisions.State) { honest = state.Invoices()[0].Body })
	content, err := register.Decisions.Read(t.Context(), honest.Content)
	if err != nil {
		t.Fatal(err)
	}
	forged := honest
	forged.Tenant, forged.Number = "other", "2025-12-other-r0"
	if forged.Content, err = register.Decisions.Put(t.Context(), bytes.ReplaceAll(content, []byte(`"1.24"`), []byte(`"9.99"`))); err != nil {
		t.Fatal(err)
	}
	if forged.Usage, err = register.Decisions.Put(t.Context(), []byte("[\"copy\",1]\n[\"usage\",\"2026-01-01T00:00:00Z\",\"\",\"NVIDIA H100 80GB HBM3\",\"\",0,7,\"active\",1,0]\n")); err != nil {
		t.Fatal(err)
	}
	outcome, err := register.Decisions.Append(t.Context(), decisions.KindInvoice, "forged", decisions.Digest([]byte("forged")), "x", &forged)
	if err != nil || !outcome.Accepted {
		t.Fatalf("%+v, %v", outcome, err)
	}
	results := run()
	if results[0].OK || !strings.Contains(strings.Join(results[0].Findings, " "), "an hour of another month") {
		t.Errorf("C7 = %+v, want the hour of another month", results[0])
	}
	if results[1].OK || !strings.Contains(strings.Join(results[1].Findings, " "), "2025-12-other-r0") {
		t.Errorf("C8 = %+v, want the forged invoice", results[1])
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
