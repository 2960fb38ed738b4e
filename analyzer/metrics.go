package analyzer

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/analyzer/episode"
)

// metrics of the analyzer. The gauges of episodes are a snapshot of the last
// good run, swapped whole: a scrape never sees half of a run.
type metrics struct {
	runs     prometheus.Counter
	errors   prometheus.Counter
	duration prometheus.Histogram
	lastRun  prometheus.Gauge
	changed  *prometheus.CounterVec
	findings *findings
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		runs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gpuledger_analyzer_runs_total", Help: "Runs of the analyzer that ended well.",
		}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gpuledger_analyzer_errors_total", Help: "Runs of the analyzer that failed.",
		}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gpuledger_analyzer_run_duration_seconds", Help: "Duration of a run.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 8),
		}),
		lastRun: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gpuledger_analyzer_last_run_timestamp_seconds", Help: "Unix time of the last run that ended well.",
		}),
		changed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gpuledger_analyzer_episodes_total", Help: "Episodes written to the table anomalies, by what was done.",
		}, []string{"change"}),
		findings: newFindings(),
	}
	for _, c := range []prometheus.Collector{m.runs, m.errors, m.duration, m.lastRun, m.changed, m.findings} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register analyzer metric: %w", err)
		}
	}
	for _, change := range []string{"written", "deleted", "kept"} {
		m.changed.WithLabelValues(change)
	}
	return m, nil
}

func (m *metrics) published(p Published) {
	m.changed.WithLabelValues("written").Add(float64(p.Written))
	m.changed.WithLabelValues("deleted").Add(float64(p.Deleted))
	m.changed.WithLabelValues("kept").Add(float64(p.Kept))
}

// findings exposes the episodes of the last run.
type findings struct {
	open, hours, cost *prometheus.Desc

	mu     sync.Mutex
	totals map[ownKind]*total
}

type ownKind struct {
	kind   episode.Kind
	tenant string
}

// total of one kind and tenant. Floats are for graphs; money is read from the
// table.
type total struct {
	open   int
	hours  float64
	costBy map[string]float64 // by currency
}

func newFindings() *findings {
	labels := []string{"kind", "tenant"}
	return &findings{
		open: prometheus.NewDesc("gpuledger_anomaly_open",
			"Episodes that go on in the ledger's newest hours.", labels, nil),
		hours: prometheus.NewDesc("gpuledger_anomaly_wasted_gpu_hours",
			"Wasted GPU-hours of the episodes in the analyzer's window.", labels, nil),
		cost: prometheus.NewDesc("gpuledger_anomaly_wasted_cost",
			"Cost of the wasted GPU-hours at list price.", append(labels, "currency"), nil),
	}
}

// set replaces the snapshot. An episode is open when it reaches into one of the
// two newest hours of the ledger: the newest may have only just begun.
func (f *findings) set(episodes []episode.Episode, newest time.Time) {
	totals := map[ownKind]*total{}
	for _, e := range episodes {
		key := ownKind{e.Kind, e.Tenant}
		t := totals[key]
		if t == nil {
			t = &total{costBy: map[string]float64{}}
			totals[key] = t
		}
		if !e.End.Before(newest) {
			t.open++
		}
		t.hours += e.WastedGPUHours.InexactFloat64()
		if e.Currency != "" {
			t.costBy[e.Currency] += e.WastedCost.InexactFloat64()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.totals = totals
}

// Describe implements prometheus.Collector.
func (f *findings) Describe(out chan<- *prometheus.Desc) {
	out <- f.open
	out <- f.hours
	out <- f.cost
}

// Collect implements prometheus.Collector.
func (f *findings) Collect(out chan<- prometheus.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, t := range f.totals {
		kind := string(key.kind)
		out <- prometheus.MustNewConstMetric(f.open, prometheus.GaugeValue, float64(t.open), kind, key.tenant)
		out <- prometheus.MustNewConstMetric(f.hours, prometheus.GaugeValue, t.hours, kind, key.tenant)
		for currency, cost := range t.costBy {
			out <- prometheus.MustNewConstMetric(f.cost, prometheus.GaugeValue, cost, kind, key.tenant, currency)
		}
	}
}
