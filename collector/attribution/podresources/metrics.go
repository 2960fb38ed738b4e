package podresources

import "github.com/prometheus/client_golang/prometheus"

// Questions, as metrics name them.
const (
	askList        = "list"
	askAllocatable = "allocatable"
	askPods        = "pods"
	askNamespace   = "namespace"
	askSlices      = "resourceslices"
	askClaim       = "resourceclaim"
)

type metrics struct {
	questions *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	stale     *prometheus.CounterVec
	finished  prometheus.Counter
	unknown   prometheus.Gauge
	ignored   prometheus.Gauge
	strange   prometheus.Gauge
	admin     prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		questions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gputally_kubelet_questions_total", Help: "Questions to the kubelet and the API server, by result.",
		}, []string{"question", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gputally_kubelet_question_duration_seconds", Help: "Time until the kubelet or the API server answered.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 7),
		}, []string{"question"}),
		stale: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gputally_kubelet_stale_answers_total", Help: "Failed questions for which an earlier answer stood in.",
		}, []string{"question"}),
		finished: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_kubelet_finished_pods_total", Help: "Finished pods that the kubelet still lists with devices and that hold none, each counted once.",
		}),
		unknown: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gputally_kubelet_unknown_pods", Help: "Pods with devices that the last list of pods does not have: they hold under what was known of them, else under their names.",
		}),
		ignored: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gputally_kubelet_ignored_devices", Help: "NVIDIA devices held under resource names that aren't configured, at the last reading.",
		}),
		strange: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gputally_kubelet_unlisted_replicas", Help: "Replicas held that the kubelet doesn't list as allocatable, at the last reading.",
		}),
		admin: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gputally_kubelet_admin_devices", Help: "DRA devices that pods have with adminAccess, which hold nothing, at the last reading.",
		}),
	}
	reg.MustRegister(m.questions, m.duration, m.stale, m.finished, m.unknown, m.ignored, m.strange, m.admin)
	for _, question := range []string{askList, askAllocatable, askPods, askNamespace, askSlices, askClaim} {
		m.questions.WithLabelValues(question, "ok")
		m.questions.WithLabelValues(question, "error")
		m.stale.WithLabelValues(question)
	}
	return m
}
