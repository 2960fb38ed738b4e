package prometheus

import (
	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/telemetry"
)

type metrics struct {
	queries    *prom.CounterVec
	points     prom.Counter
	superseded prom.Counter
	windows    prom.Gauge
}

func newMetrics(reg prom.Registerer) *metrics {
	r := telemetry.In(reg, "gputally_prometheus_")
	m := &metrics{
		queries: r.Counters("queries_total",
			"Queries to the Prometheus that history is read from, by result.", "result"),
		points: r.Counter("samples_total", "Samples read from Prometheus."),
		superseded: r.Counter("samples_superseded_total",
			"Samples dropped because their exporter was scraped again in the same slot."),
		windows: r.Gauge("window_seconds", "Length of the window of the last query."),
	}
	telemetry.Zero(m.queries, "ok", "error")
	return m
}
