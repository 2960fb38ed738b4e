package podresources

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/telemetry"
)

// Queries, as named in metrics.
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
			"Queries to the kubelet and the API server, by result.", "question", "result"),
		duration: r.Durations("question_duration_seconds",
			"Time until the kubelet or the API server answered.", 7, "question"),
		stale: r.Counters("stale_answers_total", "Failed queries for which an earlier answer was used.", "question"),
		finished: r.Counter("finished_pods_total",
			"Finished pods that the kubelet still lists with devices, each counted once; they hold nothing."),
		unknown: r.Gauge("unknown_pods",
			"Pods with devices that are missing in the last list of pods: they hold under their last known UID, else "+
				"under their name."),
		ignored: r.Gauge("ignored_devices",
			"NVIDIA devices held under resource names that aren't configured, in the last poll."),
		unlisted: r.Gauge("unlisted_replicas",
			"Held replicas that the kubelet doesn't list as allocatable, in the last poll."),
		admin: r.Gauge("admin_devices",
			"DRA devices that pods have with adminAccess, which hold nothing, in the last poll."),
	}
	for _, question := range []string{queryList, queryAllocatable, queryPods, queryNamespace, querySlices, queryClaim} {
		m.questions.WithLabelValues(question, "ok")
		m.questions.WithLabelValues(question, "error")
		m.stale.WithLabelValues(question)
	}
	return m
}
