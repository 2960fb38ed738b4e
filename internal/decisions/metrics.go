package decisions

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/telemetry"
)

// metrics are shared among the logs of one registry.
type metrics struct {
	folded *prometheus.CounterVec
	next   prometheus.Gauge
	bytes  *prometheus.GaugeVec
	head   *prometheus.GaugeVec
	whole  prometheus.Gauge

	witnessed   *prometheus.CounterVec
	witnessOwed prometheus.Gauge

	copyErrors prometheus.Counter
	copyLag    prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	s := telemetry.Shared(reg, "gputally_decisions_")
	return &metrics{
		folded: s.Counters("folded_total", "Messages of the decisions topic read since the start, by kind and outcome.",
			"kind", "outcome"),
		next:  s.Gauge("next_offset", "Offset of the decisions topic that is read next."),
		bytes: s.Gauges("bytes", "Bytes of the decisions topic's messages, by kind. They are kept for ever.", "kind"),
		head: s.Gauges("head_info",
			"The last decision's offset and the hash chain's value after it, for gputally audit --expect.", "offset", "chain"),
		whole: s.Gauge("whole",
			"0: the decisions topic lacks messages that its copy has, or has others. Nothing is decided until it is restored."),
		witnessed: s.Counters("witness_total",
			"Heads of the decisions that were to be sent to a witness, by witness and outcome.", "witness", "outcome"),
		witnessOwed: s.Gauge("witness_owed",
			"1: the last head of the decisions could not be sent to every witness. It is sent again later."),
		copyErrors: s.Counter("copy_errors_total",
			"Attempts to copy decisions to decisions.copy_dir that failed; they are copied later."),
		copyLag: s.Gauge("copy_lag_messages", "Messages of the decisions topic that were read and are not in the copy yet."),
	}
}

// count has a bounded set of kinds: a message of another is counted as unknown.
func (m *metrics) count(out *Outcome, bytes int) {
	kind, outcome := string(out.Kind), "accepted"
	if kind == "" {
		kind = "unknown"
	}
	switch {
	case out.Repeats >= 0:
		outcome = "repeated"
	case !out.Accepted:
		outcome = "refused"
	}
	m.folded.WithLabelValues(kind, outcome).Inc()
	m.bytes.WithLabelValues(kind).Add(float64(bytes))
	m.next.Set(float64(out.Offset + 1))
}

// showHead shows one head at a time.
func (m *metrics) showHead(head Head) {
	m.head.Reset()
	if head.Chain != "" {
		m.head.WithLabelValues(strconv.FormatInt(head.Offset, 10), head.Chain).Set(1)
	}
}
