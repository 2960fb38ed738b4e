package httpd

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/telemetry"
)

type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	s := telemetry.In(reg, "gputally_http_")
	return &metrics{
		requests: s.Counters("requests_total", "HTTP requests answered, by route, method and status.", "route",
			"method", "code"),
		seconds: s.Histograms("request_duration_seconds", "Time to answer an HTTP request, by route.",
			[]float64{.001, .005, .02, .1, .5, 2, 10}, "route"),
	}
}
