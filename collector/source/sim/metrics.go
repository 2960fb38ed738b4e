package sim

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/telemetry"
)

type metrics struct {
	batches *prometheus.CounterVec // by node
	plans   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) metrics {
	r := telemetry.In(reg, "gputally_sim_")
	return metrics{
		batches: r.Counters("batches_total", "Simulated batches by node; a node that reboots has none.", "node"),
		plans:   r.Counter("plans_total", "Day plans made; more than one a day means that the cache is too small."),
	}
}
