package ledger

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/telemetry"
)

type metrics struct {
	dirty, watermark, closed, stale                         *prometheus.GaugeVec
	dropped, computed, refused, findings, errors, contested prometheus.Counter
	pass                                                    prometheus.Observer
	lastPass, mappingDiffers                                prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	r := telemetry.In(reg, "gputally_ledger_")
	return &metrics{
		dirty: r.Gauges("dirty_hours",
			"Hours whose rows were computed from less than the journal holds now.", "cluster"),
		watermark: r.Gauges("watermark_timestamp_seconds", "Event time up to which the ledger counts.", "cluster"),
		closed: r.Gauges("closed_timestamp_seconds",
			"End of the closed hours: old enough, and computed from the whole journal (R3).", "cluster"),
		stale: r.Gauges("stale_hours",
			"Hours whose raw was dropped and whose rows don't reflect the journal, rules or mapping of today: they "+
				"stay as published.", "cluster"),
		dropped:  r.Counter("raw_weeks_dropped_total", "Weeks whose raw was dropped after its retention."),
		computed: r.Counter("hours_computed_total", "Cluster-hours computed and published."),
		refused: r.Counter("hours_refused_total",
			"Recomputations refused because raw has fewer rows than the journal says."),
		findings: r.Counter("findings_total", "Contradictions between batches."),
		errors:   r.Counter("errors_total", "Passes that failed."),
		contested: r.Counter("contested_epochs_total",
			"Epochs that several services started at once with different rules or tenant mappings."),
		pass: r.Histograms("pass_seconds", "One pass over all clusters.",
			prometheus.ExponentialBuckets(0.005, 2, 14)).WithLabelValues(),
		lastPass: r.Gauge("last_pass_timestamp_seconds", "End of the last pass that succeeded."),
		mappingDiffers: r.Gauge("tenant_mapping_differs",
			"1 if the ledger is published under another tenant mapping than that of this service's file."),
	}
}
