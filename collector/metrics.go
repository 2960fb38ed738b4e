package collector

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	readDuration prometheus.Histogram
	readErrors   prometheus.Counter
	sampled      prometheus.Counter
	spooled      prometheus.Counter
	dropped      *prometheus.CounterVec
	skipped      prometheus.Counter
	missed       prometheus.Counter
	wallSteps    prometheus.Counter
	appendErrors prometheus.Counter
	ackErrors    prometheus.Counter
	published    prometheus.Counter
	publishFails prometheus.Counter
	refused      prometheus.Counter
	lastSlot     prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "gputally_collector_" + name, Help: help})
	}
	m := &metrics{
		readDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gputally_collector_read_duration_seconds", Help: "Time the source took to read one slot.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}),
		readErrors: counter("read_errors_total", "Readings in which the source failed, for a node at least."),
		sampled:    counter("batches_sampled_total", "Batches cut by this boot, or due in a slot that it missed."),
		spooled:    counter("batches_spooled_total", "Batches written to the spool."),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gputally_collector_batches_dropped_total", Help: "Batches cut but not spooled, by reason.",
		}, []string{"reason"}),
		skipped:      counter("batches_skipped_total", "Batches of slots that had been emitted before."),
		missed:       counter("slots_missed_total", "Slots not read because the collector was held up."),
		wallSteps:    counter("wall_clock_steps_total", "Steps of the wall clock of more than 500 ms."),
		appendErrors: counter("spool_append_errors_total", "Failed appends to the spool."),
		ackErrors:    counter("spool_ack_errors_total", "Failed moves of the spool's cursor."),
		published:    counter("messages_published_total", "Messages acknowledged by the broker."),
		publishFails: counter("publish_errors_total", "Failed produce calls."),
		refused:      counter("messages_refused_total", "Messages the broker refused for good, announced as gaps."),
		lastSlot: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gputally_collector_last_slot_timestamp_seconds", Help: "Start of the newest slot that was spooled.",
		}),
	}
	reg.MustRegister(m.readDuration, m.readErrors, m.sampled, m.spooled, m.dropped, m.skipped, m.missed, m.wallSteps,
		m.appendErrors, m.ackErrors, m.published, m.publishFails, m.refused, m.lastSlot)
	for _, reason := range []string{droppedSpool, droppedInvalid, droppedStopped, droppedMissed} {
		m.dropped.WithLabelValues(reason)
	}
	return m
}

// registerSpool exposes the spool's own counts: how full it is, and what it
// lost because it was full or damaged.
func registerSpool(reg prometheus.Registerer, sp Spool, maxBytes int64) {
	reg.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "gputally_spool_bytes", Help: "Bytes of the spool's segments.",
		}, func() float64 { return float64(sp.Stats().Bytes) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "gputally_spool_max_bytes", Help: "Bound of the spool.",
		}, func() float64 { return float64(maxBytes) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "gputally_spool_records", Help: "Batches in the spool that the broker hasn't acknowledged.",
		}, func() float64 { return float64(sp.Stats().Records) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "gputally_spool_dropped_records_total", Help: "Batches spooled but lost: the spool was full or damaged, or the broker refused them for good.",
		}, func() float64 { return float64(sp.Stats().Dropped) }),
	)
}
