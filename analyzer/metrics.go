package analyzer

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/telemetry"
)

// metrics describe the analyzer's own runs; findings and months have their results.
type metrics struct {
	runs, errors prometheus.Counter
	duration     prometheus.Observer
	lastRun      prometheus.Gauge
	changed      *prometheus.CounterVec
	findings     *findings
	months       *monthMetrics
}

func newMetrics(registry prometheus.Registerer) *metrics {
	r := telemetry.In(registry, "gputally_analyzer_")
	m := &metrics{
		runs:   r.Counter("runs_total", "Successful runs of the analyzer."),
		errors: r.Counter("errors_total", "Failed runs of the analyzer."),
		duration: r.Histograms("run_duration_seconds", "Duration of a run.",
			prometheus.ExponentialBuckets(0.01, 4, 8)).WithLabelValues(),
		lastRun:  r.Gauge("last_run_timestamp_seconds", "Unix time of the last successful run."),
		changed:  r.Counters("episodes_total", "Episodes written to the table anomalies, by change.", "change"),
		findings: newFindings(),
		months:   newMonthMetrics(),
	}
	registry.MustRegister(m.findings, m.months)
	telemetry.Zero(m.changed, "written", "deleted", "kept")
	return m
}

func (m *metrics) published(p Published) {
	m.changed.WithLabelValues("written").Add(float64(p.Written))
	m.changed.WithLabelValues("deleted").Add(float64(p.Deleted))
	m.changed.WithLabelValues("kept").Add(float64(p.Kept))
}
