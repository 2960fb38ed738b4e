package exporter

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector/source/field"
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
	m := &metrics{
		duration: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gputally_exporter_scrape_duration_seconds", Help: "Duration of the last scrape of a dcgm-exporter.",
		}, []string{"target"}),
		success: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gputally_exporter_scrape_success", Help: "1 if the last scrape of a dcgm-exporter gave GPU rows.",
		}, []string{"target"}),
		series: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gputally_exporter_scrape_series", Help: "Series in the last scrape of a dcgm-exporter, unused ones included.",
		}, []string{"target"}),
		scrapes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gputally_exporter_scrapes_total", Help: "Scrapes of a dcgm-exporter by result.",
		}, []string{"target", "result"}),
		absent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gputally_exporter_values_absent_total", Help: "Values taken as absent, by reason.",
		}, []string{"reason"}),
		unresolved: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gputally_exporter_gpus_left_out_total", Help: "GPUs left out of a batch because their slices are unknown, by model.",
		}, []string{"model"}),
		inferred: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gputally_exporter_mig_inferred", Help: "GPUs whose MIG mode was inferred from missing rows in the last slot.",
		}),
		parentHold: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_exporter_parent_owners_ignored_total", Help: "Owners on the parent row of MIG instances, which say nothing of an instance.",
		}),
		stateFails: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_exporter_state_errors_total", Help: "State files that could not be used or written.",
		}),
	}
	reg.MustRegister(m.duration, m.success, m.series, m.scrapes, m.absent, m.unresolved, m.inferred, m.parentHold, m.stateFails)
	for _, reason := range []string{
		field.AbsentBlank, field.AbsentNaN, field.AbsentRange, field.AbsentUndecided, field.AbsentHelp,
		field.AbsentContradiction, absentMIGUtil, absentNoGPU, absentUnknown,
	} {
		m.absent.WithLabelValues(reason)
	}
	return m
}
