package guard

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Reasons for which a request is refused before a handler sees it.
const (
	reasonHost   = "host"
	reasonOrigin = "cross_origin"
	reasonRate   = "rate"
	reasonBusy   = "busy"
	reasonMemory = "memory"
	reasonRead   = "read_only"
)

type metrics struct {
	refused     *prometheus.CounterVec
	inFlight    prometheus.Gauge
	notModified prometheus.Counter
	panics      prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gputally_http_requests_refused_total", Help: "Requests refused before a handler saw them, by reason.",
		}, []string{"reason"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gputally_http_requests_in_flight", Help: "Requests being answered.",
		}),
		notModified: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_http_not_modified_total", Help: "Answers not sent again because the client has them.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_http_panics_total", Help: "Handlers that panicked.",
		}),
	}
	for _, reason := range []string{reasonHost, reasonOrigin, reasonRate, reasonBusy, reasonMemory, reasonRead} {
		m.refused.WithLabelValues(reason)
	}
	for _, c := range []prometheus.Collector{m.refused, m.inFlight, m.notModified, m.panics} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register HTTP guard metrics: %w", err)
		}
	}
	return m, nil
}
