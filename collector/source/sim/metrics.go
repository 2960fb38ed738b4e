package sim

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	batches *prometheus.CounterVec // by node
	plans   prometheus.Counter
}

func newMetrics(r prometheus.Registerer) metrics {
	f := promauto.With(r)
	return metrics{
		batches: f.NewCounterVec(prometheus.CounterOpts{
			Name: "gputally_sim_batches_total",
			Help: "Simulated batches by node; a node that reboots has none.",
		}, []string{"node"}),
		plans: f.NewCounter(prometheus.CounterOpts{
			Name: "gputally_sim_plans_total",
			Help: "Day plans made; more than one a day means that the cache is too small.",
		}),
	}
}
