package podresources

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/telemetry"
)

// Questions, as metrics name them.
const (
	queryList        = "list"
	queryAllocatable = "allocatable"
	queryPods        = "pods"
	queryNamespace   = "namespace"
	querySlices      = "resourceslices"
	queryClaim       = "resourceclaim"
)

type metrics struct {
	questions *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	stale     *prometheus.CounterVec
	finished  prometheus.Counter
	unknown   prometheus.Gauge
	ignored   prometheus.Gauge
	unlisted  prometheus.Gauge
	admin     prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	r := telemetry.In(reg, "gputally_kubelet_")
	m := &metrics{
		questions: r.Counters("questions_total",
			"Questions to the kubelet and the API server, by result.", "question", "result"),
		duration: r.Durations("question_duration_seconds",
			"Time until the kubelet or the API server answered.", 7, "question"),
		stale: r.Counters("stale_answers_total", "Failed questions for which an earlier answer stood in.", "question"),
		finished: r.Counter("finished_pods_total",
			"Finished pods that the kubelet still lists with devices and that hold none, each counted once."),
		unknown: r.Gauge("unknown_pods",
			"Pods with devices that the last list of pods does not have: they hold under what was known of them, else "+
				"under their names."),
		ignored: r.Gauge("ignored_devices",
			"NVIDIA devices held under resource names that aren't configured, at the last reading."),
		unlisted: r.Gauge("unlisted_replicas",
			"Replicas held that the kubelet doesn't list as allocatable, at the last reading."),
		admin: r.Gauge("admin_devices",
			"DRA devices that pods have with adminAccess, which hold nothing, at the last reading."),
	}
	for _, question := range []string{queryList, queryAllocatable, queryPods, queryNamespace, querySlices, queryClaim} {
		m.questions.WithLabelValues(question, "ok")
		m.questions.WithLabelValues(question, "error")
		m.stale.WithLabelValues(question)
	}
	return m
}
