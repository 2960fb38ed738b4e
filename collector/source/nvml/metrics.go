package nvml

import (
	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/telemetry"
)

// Reasons for absent values other than return codes.
const (
	absentFirstSample = "gpm_first_sample" // a mean requires two
	absentWindow      = "gpm_window"       // the samples are too close or too far apart
	absentPartial     = "gpm_partial"      // the activity of several compute instances in one GPU instance
	absentSymbol      = "library"          // the library has no such function
)

type metrics struct {
	absent *prometheus.CounterVec
	inits  *prometheus.CounterVec
	xids   *prometheus.CounterVec
	ecc    *prometheus.CounterVec
	hangs  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	r := telemetry.In(reg, "gputally_nvml_")
	m := &metrics{
		absent: r.Counters("values_absent_total", "Values that NVML did not return, by reason.", "reason"),
		inits:  r.Counters("initialisations_total", "Attempts to initialise NVML, by result.", "result"),
		xids:   r.Counters("events_total", "XID events received, by whether they were added to a batch.", "result"),
		ecc:    r.Counters("ecc_events_total", "ECC error events received, by kind.", "kind"),
		hangs:  r.Counter("hangs_total", "Readings for which the driver did not answer in time."),
	}
	telemetry.Zero(m.inits, "ok", "error")
	return m
}

// reason is a return code as a label's value.
func reason(ret gonvml.Return) string {
	switch ret {
	case gonvml.ERROR_NOT_SUPPORTED:
		return "not_supported"
	case gonvml.ERROR_NO_PERMISSION:
		return "no_permission"
	case gonvml.ERROR_NO_DATA, gonvml.ERROR_NOT_READY:
		return "no_data"
	case gonvml.ERROR_GPU_IS_LOST:
		return "lost"
	case gonvml.ERROR_FUNCTION_NOT_FOUND:
		return absentSymbol
	}
	return "error"
}
