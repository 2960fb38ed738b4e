package analyzer

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/analyzer/month"
)

// monthMetrics exposes the last forecasts.
type monthMetrics struct {
	gpuHours, spend measure
	number          *prometheus.Desc

	mu      sync.Mutex
	tenants []month.Tenant // mostTenants: those with a budget first, then those that are expected to use most
	omitted int
	budgets map[string]month.Budget
}

// measure is the metrics of GPU-hours or of spend.
type measure struct{ expected, used, budget *prometheus.Desc }

func newMonthMetrics() *monthMetrics {
	of := func(unit, what string, labels ...string) measure {
		return measure{
			prometheus.NewDesc("gputally_forecast_"+unit, what+" that a tenant is expected to have used by the end of its "+
				"month, and the 80 % interval.", append(labels, "bound"), nil),
			prometheus.NewDesc("gputally_forecast_used_"+unit, what+" that a tenant has used in its month.", labels, nil),
			prometheus.NewDesc("gputally_forecast_budget_"+unit, what+" that a tenant may use in a month.", labels, nil),
		}
	}
	return &monthMetrics{
		gpuHours: of("gpu_hours", "GPU-hours", "tenant"),
		spend:    of("spend", "Spend at list price", "tenant", "currency"),
		number: prometheus.NewDesc("gputally_forecast_tenants",
			"Tenants in the forecasts: shown in metrics, or omitted because there are too many.", []string{"state"}, nil),
	}
}

// set replaces the snapshot as a whole.
func (m *monthMetrics) set(tenants []month.Tenant, budgets map[string]month.Budget) {
	rank := func(t month.Tenant) int {
		if _, ok := budgets[t.Name]; ok {
			return 0
		}
		return 1
	}
	slices.SortFunc(tenants, func(a, b month.Tenant) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.GPUHours.Month.Expected, a.GPUHours.Month.Expected),
			cmp.Compare(a.Name, b.Name))
	})
	shown := slices.Clone(tenants[:min(len(tenants), mostTenants)])
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tenants, m.omitted, m.budgets = shown, len(tenants)-len(shown), budgets
}

// Describe implements prometheus.Collector.
func (m *monthMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, of := range []measure{m.gpuHours, m.spend} {
		out <- of.expected
		out <- of.used
		out <- of.budget
	}
	out <- m.number
}

// Collect implements prometheus.Collector.
func (m *monthMetrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.tenants {
		t := &m.tenants[i]
		budget := m.budgets[t.Name]
		m.gpuHours.collect(out, &t.GPUHours, budget.GPUHours, t.Name)
		if t.Currency != "" {
			m.spend.collect(out, &t.Spend, budget.Spend, t.Name, t.Currency)
		}
	}
	out <- prometheus.MustNewConstMetric(m.number, prometheus.GaugeValue, float64(len(m.tenants)), "shown")
	out <- prometheus.MustNewConstMetric(m.number, prometheus.GaugeValue, float64(m.omitted), "omitted")
}

// collect exposes what is known of a tenant: the forecast where there is one.
func (m measure) collect(out chan<- prometheus.Metric, o *month.Outlook, budget float64, labels ...string) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		if !math.IsNaN(v) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
		}
	}
	gauge(m.used, o.Used, labels...)
	if budget > 0 {
		gauge(m.budget, budget, labels...)
	}
	if o.Method != "" {
		for bound, v := range map[string]float64{
			"expected": o.Month.Expected, "low80": o.Month.Low80, "high80": o.Month.High80,
		} {
			gauge(m.expected, v, append(slices.Clone(labels), bound)...)
		}
	}
}
