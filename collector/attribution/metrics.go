package attribution

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	polls      *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	lastGood   *prometheus.GaugeVec
	holdings   *prometheus.GaugeVec
	failed     prometheus.Counter
	unresolved *prometheus.CounterVec
	elsewhere  prometheus.Counter
}

// Why a holding's device was not found.
const (
	unresolvedGone     = "gone"     // it was there and isn't any more, or is on a board that is lost
	unresolvedInstance = "instance" // it may be an instance whose UUID nobody knows: the slot fails
	unresolvedMinor    = "minor"    // it may be a board whose minor number nobody knows: the slot fails
	unresolvedWhole    = "whole"    // a position was taken for a board, which has instances: the slot fails
	unresolvedNever    = "never"    // it was never there: another device is meant, and the slot fails
)

func newMetrics(reg prometheus.Registerer, readers []Reader) *metrics {
	byReader := []string{"reader"}
	m := &metrics{
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gputally_attribution_polls_total", Help: "Questions put to a source of owners, by result.",
		}, []string{"reader", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gputally_attribution_poll_duration_seconds", Help: "Time a source of owners took to answer.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 7),
		}, byReader),
		lastGood: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gputally_attribution_last_success_timestamp_seconds", Help: "When a source of owners last answered.",
		}, byReader),
		holdings: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gputally_attribution_holdings", Help: "Devices and replicas that a source of owners named as held, in its last answer.",
		}, byReader),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_attribution_slots_failed_total", Help: "Slots whose owners are not known.",
		}),
		unresolved: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gputally_attribution_unresolved_total", Help: "Holdings in a slot whose device was not found, by what was missing.",
		}, []string{"reason"}),
	}
	m.elsewhere = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gputally_attribution_other_nodes_total", Help: "Batches of other nodes, whose owners nobody here can be asked for.",
	})
	reg.MustRegister(m.polls, m.duration, m.lastGood, m.holdings, m.failed, m.unresolved, m.elsewhere)
	for _, r := range readers {
		m.polls.WithLabelValues(r.Name(), "ok")
		m.polls.WithLabelValues(r.Name(), "error")
	}
	for _, reason := range []string{unresolvedGone, unresolvedInstance, unresolvedMinor, unresolvedWhole, unresolvedNever} {
		m.unresolved.WithLabelValues(reason)
	}
	return m
}
