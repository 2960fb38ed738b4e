package ingest

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	messages   prometheus.Counter
	rows       *prometheus.CounterVec
	dead       *prometheus.CounterVec
	holes      prometheus.Counter
	late       prometheus.Counter
	unknown    prometheus.Counter
	findings   prometheus.Counter
	retries    *prometheus.CounterVec
	chunk      prometheus.Histogram
	newestSlot *prometheus.GaugeVec
	held       prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		messages: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_ingest_messages_total",
			Help: "Messages journalled.",
		}),
		rows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gputally_ingest_rows_total",
			Help: "Rows inserted, by table.",
		}, []string{"table"}),
		dead: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gputally_ingest_dead_letters_total",
			Help: "Messages dead-lettered, by reason.",
		}, []string{"reason"}),
		holes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_ingest_hole_offsets_total",
			Help: "Offsets lost to the topic's retention before they were read.",
		}),
		late: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_ingest_late_unprocessed_total",
			Help: "Batches kept for a manual adjustment: the raw of their hours was dropped.",
		}),
		unknown: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_ingest_unknown_fields_total",
			Help: "Unknown fields in batches, which were ignored.",
		}),
		findings: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_ingest_findings_total",
			Help: "Contradictions inside batches.",
		}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gputally_ingest_retries_total",
			Help: "Steps retried after an error, by step and class: passing (temporary), or refused (needs an " +
				"operator).",
		}, []string{"step", "class"}),
		chunk: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gputally_ingest_chunk_seconds", Help: "From fetch to commit of one chunk.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 14),
		}),
		newestSlot: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gputally_ingest_newest_slot_timestamp_seconds",
			Help: "End of the newest live slot that this ingester journalled, by cluster. Freshness is the current time minus " +
				"the greatest value of all ingesters.",
		}, []string{"cluster"}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gputally_ingest_held_bytes",
			Help: "Bytes of messages that were fetched and are not in the journal yet.",
		}),
	}
	reg.MustRegister(m.messages, m.rows, m.dead, m.holes, m.late, m.unknown, m.findings, m.retries, m.chunk,
		m.newestSlot, m.held)
	return m
}
