package decisions

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/telemetry"
)

// metrics are shared by the logs of one registry.
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
		next:  s.Gauge("next_offset", "Next offset of the decisions topic to be read."),
		bytes: s.Gauges("bytes", "Bytes of the decisions topic's messages, by kind. They are kept for ever.", "kind"),
		head: s.Gauges("head_info",
			"The last decision's offset and the hash chain's value after it, for gputally audit --expect.", "offset", "chain"),
		whole: s.Gauge("whole",
			"0 if the decisions topic lacks messages that its copy has, or differs from it. Nothing is decided until it is "+
				"restored."),
		witnessed: s.Counters("witness_total",
			"Attempts to send the head of the decisions to a witness, by witness and outcome.", "witness", "outcome"),
		witnessOwed: s.Gauge("witness_owed",
			"1 if the last head of the decisions could not be sent to every witness. It is sent again later."),
		copyErrors: s.Counter("copy_errors_total",
			"Failed attempts to copy decisions to decisions.copy_dir; they are repeated."),
		copyLag: s.Gauge("copy_lag_messages", "Messages of the decisions topic that were read but are not in the copy yet."),
	}
}

// count counts unknown kinds as one, so that the number of labels is bounded.
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

// showHead exposes the current head only.
func (m *metrics) showHead(head Head) {
	m.head.Reset()
	if head.Chain != "" {
		m.head.WithLabelValues(strconv.FormatInt(head.Offset, 10), head.Chain).Set(1)
	}
}
