package dcgm

import "github.com/prometheus/client_golang/prometheus"

// Reasons why a value is absent.
const (
	absentStatus = "status" // DCGM says that it has none
	absentBlank  = "blank"  // one of DCGM's blanks
	absentStale  = "stale"  // of another time than the slot
	absentType   = "type"   // not a number
)

type metrics struct {
	connected     prometheus.Gauge
	reconnects    prometheus.Counter
	watchFailures *prometheus.CounterVec
	absent        *prometheus.CounterVec
	blocked       prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gputally_dcgm_connected", Help: "1 while the host engine is connected.",
		}),
		reconnects: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_dcgm_reconnects_total", Help: "Connections to the host engine after the first one.",
		}),
		watchFailures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gputally_dcgm_watch_failures_total", Help: "Watches that DCGM refused, by group.",
		}, []string{"group"}),
		absent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gputally_dcgm_values_absent_total", Help: "Values taken as absent, by reason.",
		}, []string{"reason"}),
		blocked: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_dcgm_blocked_total", Help: "Readings given up because DCGM did not answer.",
		}),
	}
	reg.MustRegister(m.connected, m.reconnects, m.watchFailures, m.absent, m.blocked)
	for _, reason := range []string{absentStatus, absentBlank, absentStale, absentType} {
		m.absent.WithLabelValues(reason)
	}
	for _, group := range []string{watchBoards, watchInstances, watchExtra, watchXID, watchBind, watchProfiling} {
		m.watchFailures.WithLabelValues(group)
	}
	return m
}
