package analyzer

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics describe the analyzer's own runs; findings has their results.
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
			Name: "gputally_analyzer_runs_total", Help: "Successful runs of the analyzer.",
		}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_analyzer_errors_total", Help: "Failed runs of the analyzer.",
		}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gputally_analyzer_run_duration_seconds", Help: "Duration of a run.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 8),
		}),
		lastRun: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gputally_analyzer_last_run_timestamp_seconds", Help: "Unix time of the last successful run.",
		}),
		changed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gputally_analyzer_episodes_total", Help: "Episodes written to the table anomalies, by change.",
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
