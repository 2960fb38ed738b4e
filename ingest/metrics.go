package ingest

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/telemetry"
)

type metrics struct {
	rows, dead, retries                      *prometheus.CounterVec
	messages, holes, late, unknown, findings prometheus.Counter
	chunk                                    prometheus.Observer
	newestSlot                               *prometheus.GaugeVec
	held                                     prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	r := telemetry.In(reg, "gputally_ingest_")
	return &metrics{
		messages: r.Counter("messages_total", "Messages journalled."),
		rows:     r.Counters("rows_total", "Rows inserted, by table.", "table"),
		dead:     r.Counters("dead_letters_total", "Messages dead-lettered, by reason.", "reason"),
		holes:    r.Counter("hole_offsets_total", "Offsets lost to the topic's retention before they were read."),
		late: r.Counter("late_unprocessed_total",
			"Batches kept and not counted: the raw of their hours was dropped."),
		unknown:  r.Counter("unknown_fields_total", "Unknown fields in batches, which were ignored."),
		findings: r.Counter("findings_total", "Contradictions inside batches."),
		retries: r.Counters("retries_total",
			"Steps retried after an error, by step and class: passing (temporary), or refused (needs an operator).",
			"step", "class"),
		chunk: r.Histograms("chunk_seconds", "From fetch to commit of one chunk.",
			prometheus.ExponentialBuckets(0.005, 2, 14)).WithLabelValues(),
		newestSlot: r.Gauges("newest_slot_timestamp_seconds",
			"End of the newest live slot that this ingester journalled, by cluster. Freshness is the current time minus "+
				"the greatest value of all ingesters.", "cluster"),
		held: r.Gauge("held_bytes", "Bytes of messages that were fetched and are not in the journal yet."),
	}
}
