package analyzer_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gputally/gputally/analyzer"
	"github.com/gputally/gputally/analyzer/month"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/store/storetest"
)

// history is ten weeks of full use; the month of their end is May, of which ten days are
// over.
var history = strings.Repeat("a", 70*24)

func forecasts(t *testing.T, db analyzer.DB, first time.Time) map[string]month.Tenant {
	t.Helper()
	tenants := map[string]month.Tenant{}
	asked := analyzer.Outlooks{Rates: rates{}, Now: monday.AddDate(0, 6, 0), Month: first}
	_, err := asked.Forecast(t.Context(), db, func(m month.Tenant) { tenants[m.Name] = m })
	if err != nil {
		t.Fatal(err)
	}
	return tenants
}

func TestForecastOfTheMonth(t *testing.T) {
	db := storetest.Open(t)
	lost := []byte(history)
	for i := range 30 {
		lost[65*24+i] = 'x' // the cluster, for more than a day of May
	}
	write(t, db, gpu{"GPU-1", "ml", monday, string(lost), 1})
	write(t, db, gpu{"GPU-2", "nlp", monday, string(lost), 1})
	write(t, db, gpu{"GPU-3", "ml", monday.AddDate(0, 0, 60), string(lost[60*24:]), 1}) // rows from another day on
	write(t, db, gpu{"GPU-4", "new", monday.AddDate(0, 0, 60), string(lost[60*24:]), 1})
	got := forecasts(t, db, time.Time{})
	nlp := got["nlp"]
	const used, want = 240 - 30, 744 - 30
	if nlp.GPUHours.Used != used || math.Abs(nlp.GPUHours.Month.Expected-want) > 1e-6 ||
		math.Abs(nlp.GPUHours.Month.High95-nlp.GPUHours.Month.Low95) > 1e-6 {
		t.Errorf("a constant tenant after an outage of 30 hours: %+v, want %v used of %v", nlp.GPUHours, used, want)
	}
	if nlp.Spend.Used != 4*used || math.Abs(nlp.Spend.Month.Expected-4*want) > 1e-6 || nlp.Currency != "USD" {
		t.Errorf("spend %+v %s, want the prices since the tenth", nlp.Spend, nlp.Currency)
	}
	if ml := got["ml"].GPUHours; ml.Used != 2*used || ml.Month.Expected <= 1.3*want {
		t.Errorf("a tenant that has doubled: %+v", ml)
	}
	if n := got["new"].GPUHours; n.Why == "" || n.Method != "" || n.Month.Expected != n.Used || n.Used != used {
		t.Errorf("a tenant of ten days: %+v, want no forecast and why", n)
	}
}

func TestForecastOfAMonthThatIsOver(t *testing.T) {
	db := storetest.Open(t)
	write(t, db, gpu{"GPU-1", "ml", monday, history, 1})
	got := forecasts(t, db, time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC))["ml"].GPUHours
	if got.Used != 720 || got.Month.Expected != 720 || got.Month.Low95 != 720 || got.Why != "" || got.Method != "" {
		t.Errorf("April: %+v, want 720 and no forecast", got)
	}
	june := analyzer.Outlooks{Now: monday.AddDate(0, 6, 0), Month: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)}
	_, err := june.Forecast(t.Context(), db, func(month.Tenant) {})
	if err == nil || !strings.Contains(err.Error(), "2026-06") {
		t.Errorf("June: error %v, want one that names the month", err)
	}
}

func TestForecastOfAnEmptyLedger(t *testing.T) {
	end, err := analyzer.Outlooks{Now: monday}.Forecast(t.Context(), storetest.Open(t),
		func(month.Tenant) { t.Error("a tenant") })
	if err != nil || !end.IsZero() {
		t.Errorf("end %v, error %v", end, err)
	}
}

const forecastMetrics = `
# HELP gputally_forecast_budget_gpu_hours GPU-hours that a tenant may use in a month.
# TYPE gputally_forecast_budget_gpu_hours gauge
gputally_forecast_budget_gpu_hours{tenant="ml"} 700
# HELP gputally_forecast_budget_spend Spend at list price that a tenant may use in a month.
# TYPE gputally_forecast_budget_spend gauge
gputally_forecast_budget_spend{currency="USD",tenant="ml"} 2500
# HELP gputally_forecast_tenants Tenants in the forecasts: shown in metrics, or omitted because there are too many.
# TYPE gputally_forecast_tenants gauge
gputally_forecast_tenants{state="omitted"} 0
gputally_forecast_tenants{state="shown"} 1
# HELP gputally_forecast_used_gpu_hours GPU-hours that a tenant has used in its month.
# TYPE gputally_forecast_used_gpu_hours gauge
gputally_forecast_used_gpu_hours{tenant="ml"} USED
# HELP gputally_forecast_used_spend Spend at list price that a tenant has used in its month.
# TYPE gputally_forecast_used_spend gauge
gputally_forecast_used_spend{currency="USD",tenant="ml"} SPENT
`

// TestServiceForecastsOnceAnHour: new hours of the ledger are shown an hour after the last
// forecast, and not earlier.
func TestServiceForecastsOnceAnHour(t *testing.T) {
	db := storetest.Open(t)
	write(t, db, gpu{"GPU-1", "ml", monday, history, 1})
	config, registry, fake := analyzer.DefaultConfig(), prometheus.NewRegistry(), clock.NewFake(monday.AddDate(1, 0, 0))
	config.Forecast.Budgets = map[string]month.Budget{"ml": {GPUHours: 700, Spend: 2500}, "gone": {GPUHours: 1}}
	s := newServiceOf(t, db, config, fake, registry)
	want := func(used, spent string) {
		t.Helper()
		text := strings.NewReplacer("USED", used, "SPENT", spent).Replace(forecastMetrics)
		if err := testutil.GatherAndCompare(registry, strings.NewReader(text), "gputally_forecast_budget_gpu_hours",
			"gputally_forecast_budget_spend", "gputally_forecast_tenants", "gputally_forecast_used_gpu_hours",
			"gputally_forecast_used_spend"); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"gputally_forecast_gpu_hours", "gputally_forecast_spend"} {
			if n, err := testutil.GatherAndCount(registry, name); err != nil || n != 3 {
				t.Errorf("%s: %d series, %v; want expected, low80 and high80", name, n, err)
			}
		}
	}
	runOnce(t, s)
	want("240", "960")
	write(t, db, gpu{"GPU-1", "ml", monday.AddDate(0, 0, 70), "aa", 1})
	fake.Advance(59 * time.Minute)
	runOnce(t, s)
	want("240", "960")
	fake.Advance(time.Minute)
	runOnce(t, s)
	want("242", "968")
}
