package prometheus

import prom "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	queries    *prom.CounterVec
	points     prom.Counter
	superseded prom.Counter
	windows    prom.Gauge
}

func newMetrics(reg prom.Registerer) *metrics {
	m := &metrics{
		queries: prom.NewCounterVec(prom.CounterOpts{
			Name: "gputally_prometheus_queries_total", Help: "Queries to the Prometheus that history is read from, by result.",
		}, []string{"result"}),
		points: prom.NewCounter(prom.CounterOpts{
			Name: "gputally_prometheus_samples_total", Help: "Samples read from Prometheus.",
		}),
		superseded: prom.NewCounter(prom.CounterOpts{
			Name: "gputally_prometheus_samples_superseded_total", Help: "Samples of slots in which their exporter was scraped again later.",
		}),
		windows: prom.NewGauge(prom.GaugeOpts{
			Name: "gputally_prometheus_window_seconds", Help: "Length of the window that the last query asked for.",
		}),
	}
	reg.MustRegister(m.queries, m.points, m.superseded, m.windows)
	for _, result := range []string{"ok", "error"} {
		m.queries.WithLabelValues(result)
	}
	return m
}
