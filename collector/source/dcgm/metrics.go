package dcgm

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/telemetry"
)

// Reasons for absent values.
const (
	absentStatus = "status" // DCGM reports that it has none
	absentBlank  = "blank"  // one of DCGM's blanks
	absentStale  = "stale"  // from another time than the slot
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
	r := telemetry.In(reg, "gputally_dcgm_")
	m := &metrics{
		connected:     r.Gauge("connected", "1 while the host engine is connected."),
		reconnects:    r.Counter("reconnects_total", "Connections to the host engine after the first one."),
		watchFailures: r.Counters("watch_failures_total", "Watches that DCGM refused, by group.", "group"),
		absent:        r.Counters("values_absent_total", "Values taken as absent, by reason.", "reason"),
		blocked:       r.Counter("blocked_total", "Readings given up because DCGM did not answer."),
	}
	telemetry.Zero(m.absent, absentStatus, absentBlank, absentStale, absentType)
	telemetry.Zero(m.watchFailures, watchBoards, watchInstances, watchExtra, watchXID, watchBind, watchProfiling)
	return m
}
