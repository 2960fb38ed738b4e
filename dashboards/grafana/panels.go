package grafana

import "github.com/grafana/grafana-foundation-sdk/go/units"

// view is how a panel shows its data.
type view int

const (
	viewStacked view = iota // areas on top of each other, over time
	viewLines               // over time
	viewBars                // one bar per row
	viewTable
	viewStat // one number per column or series
)

// spec describes a panel. Either sql with the columns it returns, or prom.
type spec struct {
	title, text   string
	view          view
	unit          string
	width, height uint32 // grid units; the dashboard is 24 wide
	sql           string
	columns       []string
	field         string            // of a stat: the column shown
	unitOf        map[string]string // columns with a unit of their own
	prom          []promQuery
}

type promQuery struct{ expr, legend string }

type row struct {
	title  string
	panels []spec
}

const (
	unitGPUs     = "suffix: GPUs"
	unitGPUHours = "suffix: GPU-h"
	unitKWh      = "kwatth"
)

var totalsColumns = []string{
	"capacity_gpu_hours", "held_share", "active_share", "idle_gpu_hours",
	"unaccounted_gpu_hours",
}

func total(title, text, field, unit string) spec {
	return spec{
		title: title, text: text, view: viewStat, unit: unit, width: 4, height: 4,
		sql: totalsSQL, columns: totalsColumns, field: field,
	}
}

func rows() []row {
	return []row{overviewRow(), tenantsRow(), wasteRow(), deviceRow(), healthRow()}
}

func overviewRow() row {
	return row{title: "Capacity", panels: []spec{
		total("Capacity", "GPU-hours in the inventory.", "capacity_gpu_hours", unitGPUHours),
		total("Held", "Part of the capacity held by an owner.", "held_share", units.PercentUnit),
		total("Active", "Part of the capacity held with evidence of work.", "active_share", units.PercentUnit),
		total("Held and idle", "GPU-hours held with evidence of no work.", "idle_gpu_hours", unitGPUHours),
		total("Unaccounted", "Capacity less all seven buckets (check C6). Anything but 0 is a fault.",
			"unaccounted_gpu_hours", unitGPUHours),
		{
			title: "Ledger freshness",
			text:  "How far the ledger is behind now, by cluster. A simulated or imported cluster stands still.",
			view:  viewStat, unit: units.Seconds, width: 4, height: 4,
			sql: freshnessSQL, columns: []string{"cluster", "watermark", "behind_seconds", "gpus"}, field: "behind_seconds",
		},
		{
			title: "GPUs by bucket",
			text:  "Every GPU-millisecond is in exactly one bucket; the stack's height is the inventory.",
			view:  viewStacked, unit: unitGPUs, width: 24, height: 10,
			sql:     capacitySQL,
			columns: []string{"time", "active", "idle", "unproven", "free", "stranded", "unhealthy", "unobserved"},
		},
	}}
}

func tenantsRow() row {
	return row{title: "Tenants", panels: []spec{
		{
			title: "GPUs held by tenant", view: viewStacked, unit: unitGPUs, width: 12, height: 9,
			sql: tenantsOverTimeSQL, columns: []string{"time", "tenant", "held"},
		},
		{
			title: "Energy by tenant",
			text:  "From the energy counters. (platform): free and stranded time; (unattributed): counter movement of no slot.",
			view:  viewStacked, unit: unitKWh, width: 12, height: 9,
			sql: energySQL, columns: []string{"time", "account", "energy"},
		},
		{
			title: "Usage by tenant and project", view: viewTable, unit: unitGPUHours, width: 24, height: 9,
			sql: tenantsSQL,
			columns: []string{
				"tenant", "project", "active_gpu_hours", "idle_gpu_hours", "unproven_gpu_hours",
				"held_gpu_hours", "idle_share", "energy_kwh",
			},
			unitOf: map[string]string{"idle_share": units.PercentUnit, "energy_kwh": unitKWh},
		},
	}}
}

func wasteRow() row {
	return row{title: "Waste", panels: []spec{
		{
			title: "Idle GPU-hours by tenant", text: "Only time with evidence of no work. Unknown is not idle.",
			view: viewBars, unit: unitGPUHours, width: 8, height: 9,
			sql: idleByTenantSQL, columns: []string{"tenant", "idle_gpu_hours"},
		},
		{
			title: "Idle workloads", view: viewTable, unit: unitGPUHours, width: 16, height: 9,
			sql:     idleByWorkloadSQL,
			columns: []string{"tenant", "project", "workload", "user", "node", "gpu", "leaf", "idle_gpu_hours", "idle_share"},
			unitOf:  map[string]string{"idle_share": units.PercentUnit},
		},
		{
			title: "Anomalies", text: "Episodes found by the analyzer that touch the range, the most wasteful first.",
			view: viewTable, unit: "short", width: 24, height: 9,
			sql: anomaliesSQL,
			columns: []string{
				"start", "end", "kind", "tenant", "project", "workload", "node", "gpu", "leaf",
				"wasted_gpu_hours", "wasted_cost", "currency", "evidence",
			},
			unitOf: map[string]string{"wasted_gpu_hours": unitGPUHours},
		},
		{
			title: "Stranded by MIG layout", text: "Slices that no MIG instance covers: nobody can be given them.",
			view: viewStacked, unit: unitGPUs, width: 12, height: 8,
			sql: strandedSQL, columns: []string{"time", "model", "stranded"},
		},
		{
			title: "Most stranded GPUs", view: viewTable, unit: unitGPUHours, width: 12, height: 8,
			sql:     strandedByGPUSQL,
			columns: []string{"cluster", "node", "gpu", "model", "stranded_gpu_hours", "stranded_share"},
			unitOf:  map[string]string{"stranded_share": units.PercentUnit},
		},
	}}
}

func deviceRow() row {
	return row{title: "GPU ${gpu:text}", panels: []spec{
		{
			title: "Power and activity", text: "The board's own readings; gaps are slots without one.",
			view: viewLines, unit: units.PercentUnit, width: 12, height: 9,
			sql:     boardSQL,
			columns: []string{"time", "power_watts", "sm_active", "tensor_active", "dram_active"},
			unitOf:  map[string]string{"power_watts": units.Watt},
		},
		{
			title: "SM activity by leaf", view: viewLines, unit: units.PercentUnit, width: 12, height: 9,
			sql: leavesSQL, columns: []string{"time", "leaf", "sm_active"},
		},
	}}
}

func healthRow() row {
	return row{title: "Is the ledger itself well?", panels: []spec{
		{
			title: "Unobserved share of the capacity",
			text:  "unseen: node or collector away; without_owners: seen, but who held it could not be read.",
			view:  viewLines, unit: units.PercentUnit, width: 12, height: 8,
			sql: unobservedSQL, columns: []string{"time", "cluster", "unseen", "without_owners"},
		},
		{
			title: "Scrapes that succeed", view: viewLines, unit: "bool_yes_no", width: 12, height: 8,
			prom: []promQuery{{"min by (target) (gputally_exporter_scrape_success)", "{{target}}"}},
		},
		{
			title: "Spool", text: "Batches on the nodes' disks that the broker doesn't have yet.",
			view: viewLines, unit: "bytes", width: 8, height: 8,
			prom: []promQuery{{"sum by (instance) (gputally_spool_bytes)", "{{instance}}"}},
		},
		{
			title: "Ingest lag", view: viewLines, unit: "short", width: 8, height: 8,
			prom: []promQuery{{"sum by (topic, group) (gputally_broker_consumer_lag_messages)", "{{topic}} {{group}}"}},
		},
		{
			title: "Lost or refused", text: "Records dropped from full spools, and messages sent to the dead-letter topic.",
			view: viewLines, unit: "short", width: 8, height: 8,
			prom: []promQuery{
				{"sum(increase(gputally_spool_dropped_records_total[$__rate_interval]))", "dropped from the spool"},
				{"sum(increase(gputally_ingest_dead_letters_total[$__rate_interval]))", "dead letters"},
			},
		},
		{
			title: "Hours to recompute", view: viewLines, unit: "short", width: 8, height: 8,
			prom: []promQuery{{"sum by (cluster) (gputally_ledger_dirty_hours)", "{{cluster}}"}},
		},
		{
			title: "Watermark behind now", view: viewLines, unit: units.Seconds, width: 8, height: 8,
			prom: []promQuery{{"time() - max by (cluster) (gputally_ledger_watermark_timestamp_seconds)", "{{cluster}}"}},
		},
		{
			title: "Open anomalies", view: viewLines, unit: "short", width: 8, height: 8,
			prom: []promQuery{{"sum by (kind) (gputally_anomaly_open)", "{{kind}}"}},
		},
	}}
}
