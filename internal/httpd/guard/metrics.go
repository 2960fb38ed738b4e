package guard

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/telemetry"
)

// Reasons for refusing a request before a handler is called.
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

func newMetrics(registry prometheus.Registerer) *metrics {
	s := telemetry.In(registry, "gputally_http_")
	m := &metrics{
		refused:     s.Counters("requests_refused_total", "Requests refused before any handler, by reason.", "reason"),
		inFlight:    s.Gauge("requests_in_flight", "Requests being answered."),
		notModified: s.Counter("not_modified_total", "Answers with status 304, because the client's copy was current."),
		panics:      s.Counter("panics_total", "Handlers that panicked."),
	}
	telemetry.Zero(m.refused, reasonHost, reasonOrigin, reasonRate, reasonBusy, reasonMemory, reasonRead)
	return m
}
