package board

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector/source/field"
)

const absentMIGUtil = "mig_gpu_util"

type metrics struct {
	absent     *prometheus.CounterVec
	unresolved *prometheus.CounterVec
	xids       *prometheus.CounterVec
	resets     prometheus.Counter
	changes    prometheus.Counter
	stateFails prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "gputally_device_" + name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gputally_device_" + name, Help: help}, []string{label})
	}
	m := &metrics{
		absent:     vec("values_absent_total", "Values taken as absent, by reason.", "reason"),
		unresolved: vec("gpus_left_out_total", "GPUs left out of a batch because their slices are unknown, by model.", "model"),
		xids:       vec("xids_total", "XID errors, by code.", "xid"),
		resets:     counter("resets_total", "Resets of a GPU or reloads of its driver."),
		changes:    counter("mig_changes_total", "GPUs whose instances changed within a slot."),
		stateFails: counter("state_errors_total", "State files that could not be used or written."),
	}
	reg.MustRegister(m.absent, m.unresolved, m.xids, m.resets, m.changes, m.stateFails)
	for _, reason := range []string{field.AbsentBlank, field.AbsentNaN, field.AbsentRange, absentMIGUtil} {
		m.absent.WithLabelValues(reason)
	}
	return m
}
