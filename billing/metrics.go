package billing

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shopspring/decimal"

	"github.com/gpuledger/gpuledger/billing/invoice"
)

type metrics struct {
	runs     prometheus.Counter
	errors   prometheus.Counter
	duration prometheus.Histogram
	lastRun  prometheus.Gauge
	drafts   *drafts
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		runs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gpuledger_billing_runs_total", Help: "Runs in which all months could be rated.",
		}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gpuledger_billing_errors_total", Help: "Months that could not be rated.",
		}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gpuledger_billing_run_duration_seconds", Help: "Duration of a run.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 8),
		}),
		lastRun: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gpuledger_billing_last_run_timestamp_seconds", Help: "Unix time of the last run in which all months could be rated.",
		}),
		drafts: &drafts{
			total: prometheus.NewDesc("gpuledger_invoice_draft_total",
				"Total of a tenant's draft invoice, in the currency's major unit.", []string{"tenant", "currency", "period"}, nil),
			months: map[string]*invoice.Month{},
		},
	}
	for _, c := range []prometheus.Collector{m.runs, m.errors, m.duration, m.lastRun, m.drafts} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register billing metric: %w", err)
		}
	}
	return m, nil
}

// drafts shows the totals of the months last rated; a month is swapped whole.
type drafts struct {
	total *prometheus.Desc

	mu     sync.Mutex
	months map[string]*invoice.Month
}

func (d *drafts) set(month *invoice.Month) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.months[month.Period] = month
}

// keep forgets the months that are not among periods.
func (d *drafts) keep(periods map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for period := range d.months {
		if !periods[period] {
			delete(d.months, period)
		}
	}
}

// Describe implements prometheus.Collector.
func (d *drafts) Describe(out chan<- *prometheus.Desc) { out <- d.total }

// Collect implements prometheus.Collector. Floats are for graphs; money is
// read from the documents.
func (d *drafts) Collect(out chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, month := range d.months {
		for i := range month.Invoices {
			of := &month.Invoices[i]
			total, err := decimal.NewFromString(of.Total)
			if err != nil {
				out <- prometheus.NewInvalidMetric(d.total, fmt.Errorf("read total %q of %s: %w", of.Total, of.Number, err))
				continue
			}
			out <- prometheus.MustNewConstMetric(d.total, prometheus.GaugeValue, total.InexactFloat64(), of.Tenant, of.Currency, of.Period)
		}
	}
}
