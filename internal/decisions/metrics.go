package decisions

import (
	"errors"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

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
	return &metrics{
		folded: register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "gputally", Subsystem: "decisions", Name: "folded_total",
			Help: "Messages of the decisions topic read since the start, by kind and outcome.",
		}, []string{"kind", "outcome"})),
		next: register(reg, prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "gputally", Subsystem: "decisions", Name: "next_offset",
			Help: "Offset of the decisions topic that is read next.",
		})),
		bytes: register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "gputally", Subsystem: "decisions", Name: "bytes",
			Help: "Bytes of the decisions topic's messages, by kind. They are kept for ever.",
		}, []string{"kind"})),
		head: register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "gputally", Subsystem: "decisions", Name: "head_info",
			Help: "The last decision's offset and the hash chain's value after it, for gputally audit --expect.",
		}, []string{"offset", "chain"})),
		whole: register(reg, prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "gputally", Subsystem: "decisions", Name: "whole",
			Help: "0: the decisions topic lacks messages that its copy has, or has others. Nothing is decided until it is restored.",
		})),
		witnessed: register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "gputally", Subsystem: "decisions", Name: "witness_total",
			Help: "Heads of the decisions that a witness was to be told, by witness and outcome.",
		}, []string{"witness", "outcome"})),
		witnessOwed: register(reg, prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "gputally", Subsystem: "decisions", Name: "witness_owed",
			Help: "1: the last head of the decisions could not be told to every witness. It is told again later.",
		})),
		copyErrors: register(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "gputally", Subsystem: "decisions", Name: "copy_errors_total",
			Help: "Attempts to copy decisions to decisions.copy_dir that failed; they are copied later.",
		})),
		copyLag: register(reg, prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "gputally", Subsystem: "decisions", Name: "copy_lag_messages",
			Help: "Messages of the decisions topic that were read and are not in the copy yet.",
		})),
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

// register shares a collector among the logs of one registry.
func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	err := reg.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing
		}
	}
	if err != nil {
		// A clash of names is a programming error that no input can cause.
		panic(err)
	}
	return c
}
