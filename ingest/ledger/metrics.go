package ledger

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	dirty     *prometheus.GaugeVec
	watermark *prometheus.GaugeVec
	closed    *prometheus.GaugeVec
	stale     *prometheus.GaugeVec
	dropped   prometheus.Counter
	computed  prometheus.Counter
	refused   prometheus.Counter
	findings  prometheus.Counter
	errors    prometheus.Counter
	contested prometheus.Counter
	pass      prometheus.Histogram
	lastPass  prometheus.Gauge

	mappingDiffers prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		dirty: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gputally_ledger_dirty_hours",
			Help: "Hours whose rows were computed from less than the journal holds now.",
		}, []string{"cluster"}),
		watermark: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gputally_ledger_watermark_timestamp_seconds",
			Help: "Event time up to which the ledger counts.",
		}, []string{"cluster"}),
		closed: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gputally_ledger_closed_timestamp_seconds",
			Help: "End of the closed hours: old enough, and computed from the whole journal (R3).",
		}, []string{"cluster"}),
		stale: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gputally_ledger_stale_hours",
			Help: "Hours whose raw was dropped and whose rows don't reflect the journal, rules or mapping of today: they need " +
				"a manual adjustment.",
		}, []string{"cluster"}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_ledger_raw_weeks_dropped_total",
			Help: "Weeks whose raw was dropped after its retention.",
		}),
		computed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_ledger_hours_computed_total",
			Help: "Cluster-hours computed and published.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_ledger_hours_refused_total",
			Help: "Recomputations refused because raw has fewer rows than the journal says.",
		}),
		findings: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_ledger_findings_total",
			Help: "Contradictions between batches.",
		}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_ledger_errors_total",
			Help: "Passes that failed.",
		}),
		contested: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_ledger_contested_epochs_total",
			Help: "Epochs that several services started at once with different rules or tenant mappings.",
		}),
		pass: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gputally_ledger_pass_seconds", Help: "One pass over all clusters.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 14),
		}),
		lastPass: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gputally_ledger_last_pass_timestamp_seconds",
			Help: "End of the last pass that succeeded.",
		}),

		mappingDiffers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gputally_ledger_tenant_mapping_differs",
			Help: "1 if the ledger is published under another tenant mapping than that of this service's file.",
		}),
	}
	reg.MustRegister(m.dirty, m.watermark, m.closed, m.stale, m.dropped, m.computed, m.refused, m.findings, m.errors,
		m.contested, m.pass, m.lastPass, m.mappingDiffers)
	return m
}
