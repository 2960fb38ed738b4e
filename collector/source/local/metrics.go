package local

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/internal/telemetry"
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
	r := telemetry.In(reg, "gputally_device_")
	m := &metrics{
		absent: r.Counters("values_absent_total", "Values taken as absent, by reason.", "reason"),
		unresolved: r.Counters("gpus_left_out_total",
			"GPUs left out of a batch because their slices are unknown, by model.", "model"),
		xids:       r.Counters("xids_total", "XID errors, by code.", "xid"),
		resets:     r.Counter("resets_total", "Resets of a GPU or reloads of its driver."),
		changes:    r.Counter("mig_changes_total", "GPUs whose instances changed within a slot."),
		stateFails: r.Counter("state_errors_total", "State files that could not be read or written."),
	}
	telemetry.Zero(m.absent, field.AbsentBlank, field.AbsentNaN, field.AbsentRange, absentMIGUtil)
	return m
}
