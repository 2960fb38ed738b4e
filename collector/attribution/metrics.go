package attribution

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/telemetry"
)

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
	r := telemetry.In(reg, "gputally_attribution_")
	m := &metrics{
		polls:    r.Counters("polls_total", "Questions put to a source of owners, by result.", "reader", "result"),
		duration: r.Durations("poll_duration_seconds", "Time a source of owners took to answer.", 7, "reader"),
		lastGood: r.Gauges("last_success_timestamp_seconds", "When a source of owners last answered.", "reader"),
		holdings: r.Gauges("holdings",
			"Devices and replicas that a source of owners named as held, in its last answer.", "reader"),
		failed: r.Counter("slots_failed_total", "Slots whose owners are not known."),
		unresolved: r.Counters("unresolved_total",
			"Holdings in a slot whose device was not found, by what was missing.", "reason"),
		elsewhere: r.Counter("other_nodes_total", "Batches of other nodes, whose owners nobody here can be asked for."),
	}
	for _, r := range readers {
		m.polls.WithLabelValues(r.Name(), "ok")
		m.polls.WithLabelValues(r.Name(), "error")
	}
	telemetry.Zero(m.unresolved, unresolvedGone, unresolvedInstance, unresolvedMinor, unresolvedWhole, unresolvedNever)
	return m
}
