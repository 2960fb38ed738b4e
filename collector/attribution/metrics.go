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

// Reasons why a holding's device was not found.
const (
	unresolvedGone     = "gone"     // it existed and is gone, or is on a lost board
	unresolvedInstance = "instance" // it may be an instance whose UUID is unknown: the slot fails
	unresolvedMinor    = "minor"    // it may be a board whose minor number is unknown: the slot fails
	unresolvedWhole    = "whole"    // a whole board is held that has instances: the slot fails
	unresolvedNever    = "never"    // it never existed: another device is meant, and the slot fails
)

func newMetrics(reg prometheus.Registerer, readers []Reader) *metrics {
	r := telemetry.In(reg, "gputally_attribution_")
	m := &metrics{
		polls:    r.Counters("polls_total", "Polls of a source of owners, by result.", "reader", "result"),
		duration: r.Durations("poll_duration_seconds", "Time a source of owners took to answer.", 7, "reader"),
		lastGood: r.Gauges("last_success_timestamp_seconds", "When a source of owners last answered.", "reader"),
		holdings: r.Gauges("holdings",
			"Devices and replicas that a source of owners named as held, in its last answer.", "reader"),
		failed: r.Counter("slots_failed_total", "Slots whose owners are unknown."),
		unresolved: r.Counters("unresolved_total",
			"Holdings in a slot whose device was not found, by what was missing.", "reason"),
		elsewhere: r.Counter("other_nodes_total", "Batches of other nodes, whose owners this collector can't read."),
	}
	for _, r := range readers {
		m.polls.WithLabelValues(r.Name(), "ok")
		m.polls.WithLabelValues(r.Name(), "error")
	}
	telemetry.Zero(m.unresolved, unresolvedGone, unresolvedInstance, unresolvedMinor, unresolvedWhole, unresolvedNever)
	return m
}
