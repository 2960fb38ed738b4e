package billing

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/billing/invoice"
)

type metrics struct {
	runs      prometheus.Counter
	errors    prometheus.Counter
	duration  prometheus.Histogram
	lastRun   prometheus.Gauge
	pending   *prometheus.GaugeVec
	projected prometheus.Counter
	mappings  prometheus.Counter
	months    *months
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		runs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_billing_runs_total", Help: "Runs in which all months could be rated.",
		}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_billing_errors_total", Help: "Months that could not be rated.",
		}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gputally_billing_run_duration_seconds", Help: "Duration of a run.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 8),
		}),
		lastRun: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gputally_billing_last_run_timestamp_seconds", Help: "Unix time of the last run in which all months could be rated.",
		}),
		pending: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gputally_billing_pending_adjustments", Help: "Finalised invoices of a month whose usage the ledger no longer says (R17).",
		}, []string{"period"}),
		projected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_billing_projected_total", Help: "Messages of the decisions that were brought into ClickHouse.",
		}),
		mappings: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_billing_mappings_noted_total", Help: "Tenant mappings of the ledger's epochs that were recorded as decisions (R6).",
		}),
		months: &months{
			draft: prometheus.NewDesc("gputally_invoice_draft_total",
				"Total of a tenant's draft invoice, in the currency's major unit.", []string{"tenant", "currency", "period"}, nil),
			finalised: prometheus.NewDesc("gputally_invoice_finalised_total",
				"Total of a tenant's finalised invoice or note, in the currency's major unit.", []string{"tenant", "currency", "period", "kind", "revision"}, nil),
			withheld: prometheus.NewDesc("gputally_invoice_drafts_withheld",
				"Drafts of tenants, and the platform's account, of which hours are left out: without a rate, or not billable.", []string{"period", "reason"}, nil),
			months: map[string]*invoice.Month{},
		},
	}
	for _, c := range []prometheus.Collector{m.runs, m.errors, m.duration, m.lastRun, m.projected, m.mappings, m.pending, m.months} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register billing metric: %w", err)
		}
	}
	return m, nil
}

// months shows the totals of the months last rated; a month is swapped whole.
type months struct {
	draft, finalised, withheld *prometheus.Desc

	mu     sync.Mutex
	months map[string]*invoice.Month
}

func (d *months) set(month *invoice.Month) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.months[month.Period] = month
}

// keep forgets the months that are not among periods.
func (d *months) keep(periods map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for period := range d.months {
		if !periods[period] {
			delete(d.months, period)
		}
	}
}

// Describe implements prometheus.Collector.
func (d *months) Describe(out chan<- *prometheus.Desc) {
	out <- d.draft
	out <- d.finalised
	out <- d.withheld
}

// Collect implements prometheus.Collector. Floats are for graphs; money is
// read from the documents.
func (d *months) Collect(out chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, month := range d.months {
		withheld := map[invoice.Reason]int{}
		if why := month.Platform.Withheld; why != "" {
			withheld[why]++
		}
		for i := range month.Invoices {
			of := &month.Invoices[i]
			if of.Withheld != "" {
				withheld[of.Withheld]++
			}
			total := of.Total
			if of.Status == invoice.StatusDraft {
				out <- prometheus.MustNewConstMetric(d.draft, prometheus.GaugeValue, total.InexactFloat64(), of.Tenant, of.Currency, of.Period)
				continue
			}
			out <- prometheus.MustNewConstMetric(d.finalised, prometheus.GaugeValue, total.InexactFloat64(), of.Tenant, of.Currency, of.Period, of.Kind, strconv.Itoa(of.Revision))
		}
		for why, drafts := range withheld {
			out <- prometheus.MustNewConstMetric(d.withheld, prometheus.GaugeValue, float64(drafts), month.Period, string(why))
		}
	}
}
