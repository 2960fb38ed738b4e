package analyzer

import (
	"fmt"
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gputally/gputally/analyzer/forecast"
	"github.com/gputally/gputally/analyzer/month"
)

// TestMetricsOfForecastsAreBounded: of 1,500 tenants the largest are shown, and the smallest
// because it has a budget; of a tenant without a forecast what it has used.
func TestMetricsOfForecastsAreBounded(t *testing.T) {
	m, registry := newMonthMetrics(), prometheus.NewRegistry()
	registry.MustRegister(m)
	var tenants []month.Tenant
	for i := range 1500 {
		o := month.Outlook{Used: 1, Month: forecast.Amount{Expected: float64(i)}, Method: "some"}
		if i == 1499 {
			o.Method = ""
		}
		tenants = append(tenants, month.Tenant{
			Name: fmt.Sprint("t", i), GPUHours: o, Spend: month.Outlook{Used: math.NaN()},
		})
	}
	m.set(tenants, map[string]month.Budget{"t0": {GPUHours: 5}})
	for name, want := range map[string]int{
		"gputally_forecast_used_gpu_hours": 1000, "gputally_forecast_gpu_hours": 3 * 999, "gputally_forecast_tenants": 2,
		"gputally_forecast_budget_gpu_hours": 1, "gputally_forecast_used_spend": 0,
	} {
		if n, err := testutil.GatherAndCount(registry, name); err != nil || n != want {
			t.Errorf("%s: %d series, %v; want %d", name, n, err, want)
		}
	}
	if m.omitted != 500 || m.tenants[0].Name != "t0" || m.tenants[999].Name != "t501" {
		t.Errorf("omitted %d, shown from %s to %s", m.omitted, m.tenants[0].Name, m.tenants[999].Name)
	}
}
