package exporter

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/internal/telemetry"
)

type metrics struct {
	duration   *prometheus.GaugeVec
	success    *prometheus.GaugeVec
	series     *prometheus.GaugeVec
	scrapes    *prometheus.CounterVec
	absent     *prometheus.CounterVec
	unresolved *prometheus.CounterVec
	inferred   prometheus.Gauge
	parentHold prometheus.Counter
	stateFails prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	r := telemetry.In(reg, "gputally_exporter_")
	m := &metrics{
		duration: r.Gauges("scrape_duration_seconds", "Duration of the last scrape of a dcgm-exporter.", "target"),
		success:  r.Gauges("scrape_success", "1 if the last scrape of a dcgm-exporter returned GPU rows.", "target"),
		series: r.Gauges("scrape_series",
			"Series in the last scrape of a dcgm-exporter, unused ones included.", "target"),
		scrapes: r.Counters("scrapes_total", "Scrapes of a dcgm-exporter by result.", "target", "result"),
		absent:  r.Counters("values_absent_total", "Values taken as absent, by reason.", "reason"),
		unresolved: r.Counters("gpus_left_out_total",
			"GPUs left out of a batch because their slices are unknown, by model.", "model"),
		inferred: r.Gauge("mig_inferred", "GPUs whose MIG mode was inferred from missing rows in the last slot."),
		parentHold: r.Counter("parent_owners_ignored_total",
			"Owners on the parent row of MIG instances, whose instance is unknown."),
		stateFails: r.Counter("state_errors_total", "State files that could not be read or written."),
	}
	telemetry.Zero(m.absent, field.AbsentBlank, field.AbsentNaN, field.AbsentRange, field.AbsentUndecided,
		field.AbsentHelp, field.AbsentContradiction, absentMIGUtil, absentNoGPU, absentUnknown)
	return m
}
