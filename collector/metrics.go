package collector

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/telemetry"
)

type metrics struct {
	readDuration prometheus.Observer
	dropped      *prometheus.CounterVec
	lastSlot     prometheus.Gauge

	readErrors, sampled, spooled, skipped, missed, wallSteps  prometheus.Counter
	appendErrors, ackErrors, published, publishFails, refused prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	r := telemetry.In(reg, "gputally_collector_")
	m := &metrics{
		readDuration: r.Durations("read_duration_seconds", "Time the source took to read one slot.", 8).WithLabelValues(),
		readErrors:   r.Counter("read_errors_total", "Readings in which the source failed, for a node at least."),
		sampled:      r.Counter("batches_sampled_total", "Batches sampled by this boot, or due in a slot that it missed."),
		spooled:      r.Counter("batches_spooled_total", "Batches written to the spool."),
		dropped:      r.Counters("batches_dropped_total", "Batches sampled but not spooled, by reason.", "reason"),
		skipped:      r.Counter("batches_skipped_total", "Batches of slots that had been emitted before."),
		missed:       r.Counter("slots_missed_total", "Slots not read because the collector was delayed."),
		wallSteps:    r.Counter("wall_clock_steps_total", "Steps of the wall clock of more than 500 ms."),
		appendErrors: r.Counter("spool_append_errors_total", "Failed appends to the spool."),
		ackErrors:    r.Counter("spool_ack_errors_total", "Failed moves of the spool's cursor."),
		published:    r.Counter("messages_published_total", "Messages acknowledged by the broker."),
		publishFails: r.Counter("publish_errors_total", "Failed produce calls."),
		refused:      r.Counter("messages_refused_total", "Messages the broker refused permanently, announced as gaps."),
		lastSlot:     r.Gauge("last_slot_timestamp_seconds", "Start of the newest slot that was spooled."),
	}
	telemetry.Zero(m.dropped, droppedSpool, droppedInvalid, droppedStopped, droppedMissed)
	return m
}

// registerSpool exposes the spool's own counters: its size, and what it lost because it was full or damaged.
func registerSpool(reg prometheus.Registerer, sp Spool, maxBytes int64) {
	r := telemetry.In(reg, "gputally_spool_")
	r.GaugeFunc("bytes", "Bytes of the spool's segments.", func() float64 { return float64(sp.Stats().Bytes) })
	r.GaugeFunc("max_bytes", "Bound of the spool.", func() float64 { return float64(maxBytes) })
	r.GaugeFunc("records", "Batches in the spool that the broker hasn't acknowledged.",
		func() float64 { return float64(sp.Stats().Records) })
	r.CounterFunc("dropped_records_total",
		"Batches spooled but lost: the spool was full or damaged, or the broker refused them permanently.",
		func() float64 { return float64(sp.Stats().Dropped) })
}
