package billing

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/internal/telemetry"
)

type metrics struct {
	runs      prometheus.Counter
	errors    prometheus.Counter
	duration  prometheus.Observer
	lastRun   prometheus.Gauge
	pending   *prometheus.GaugeVec
	projected prometheus.Counter
	mappings  prometheus.Counter
	months    *months
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &months{
		draft: prometheus.NewDesc("gputally_invoice_draft_total",
			"Total of a tenant's draft invoice, in the currency's major unit.", []string{"tenant", "currency", "period"}, nil),
		finalised: prometheus.NewDesc("gputally_invoice_finalised_total",
			"Total of a tenant's finalised invoice or note, in the currency's major unit.",
			[]string{"tenant", "currency", "period", "kind", "revision"}, nil),
		withheld: prometheus.NewDesc("gputally_invoice_drafts_withheld",
			"Drafts of tenants, and the platform's account, of which hours are left out: without a rate, or not billable.",
			[]string{"period", "reason"}, nil),
		months: map[string]*invoice.Month{},
	}
	if err := registry.Register(m); err != nil {
		return nil, fmt.Errorf("register billing metric: %w", err)
	}
	in := telemetry.In(registry, "gputally_billing_")
	return &metrics{
		months: m,
		runs:   in.Counter("runs_total", "Runs in which all months could be rated."),
		errors: in.Counter("errors_total", "Months that could not be rated."),
		duration: in.Histograms("run_duration_seconds", "Duration of a run.",
			prometheus.ExponentialBuckets(0.01, 4, 8)).WithLabelValues(),
		lastRun: in.Gauge("last_run_timestamp_seconds", "Unix time of the last run in which all months could be rated."),
		pending: in.Gauges("pending_adjustments",
			"Finalised invoices of a month whose usage the ledger no longer says (R17).", "period"),
		projected: in.Counter("projected_total", "Messages of the decisions that were projected into ClickHouse."),
		mappings: in.Counter("mappings_noted_total",
			"Tenant mappings of the ledger's epochs that were recorded as decisions (R6)."),
	}, nil
}

// months has the totals of the months last rated; a month is replaced atomically.
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

// keep removes the months that are not among periods.
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

// Collect implements prometheus.Collector. Floats are for graphs; amounts of money are in the documents.
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
				out <- prometheus.MustNewConstMetric(d.draft, prometheus.GaugeValue, total.InexactFloat64(), of.Tenant,
					of.Currency, of.Period)
				continue
			}
			out <- prometheus.MustNewConstMetric(d.finalised, prometheus.GaugeValue, total.InexactFloat64(), of.Tenant,
				of.Currency, of.Period, of.Kind, strconv.Itoa(of.Revision))
		}
		for why, drafts := range withheld {
			out <- prometheus.MustNewConstMetric(d.withheld, prometheus.GaugeValue, float64(drafts), month.Period, string(why))
		}
	}
}
