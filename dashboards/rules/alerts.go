package rules

func wasteAlerts() []alert {
	return []alert{
		newAlert("GPUTallyIdleAllocation", info, "15m",
			`gputally_anomaly_open{kind="idle_allocation"} > 0`, text{
				summary: "{{ $labels.tenant }} holds {{ $value }} idle GPU allocation(s)",
				description: "Leaves held by {{ $labels.tenant }} show evidence of no work for hours and are still held. Time " +
					"without evidence is not counted.",
				runbook: "Look: gputally anomalies, or the dashboard's table Anomalies, names node, GPU, leaf, workload " +
					"and cost. " +
					"Ask the owner to release the leaf or to end the job. If the work is real, check that SM activity of the GPU " +
					"is exported: a profiler that reads zero is no evidence.",
			}),
		newAlert("GPUTallyOffHoursSpike", warning, "5m",
			`max_over_time(gputally_anomaly_open{kind="off_hours_spike"}[2h]) > 0`, text{
				summary: "{{ $labels.tenant }} uses far more GPUs than it ever does at this hour",
				description: "Active GPU-hours of {{ $labels.tenant }} outside its working hours are far above its own baseline " +
					"of such hours. The alert stays for two hours after the spike.",
				runbook: "Look: gputally anomalies shows the figures and the baseline. Ask the tenant whether it started " +
					"this work; " +
					"if nobody did, treat it as stolen credentials. If it is a new habit, it stops being one after it has " +
					"recurred; if the calendar is wrong, correct the tenant's working hours.",
			}),
	}
}

func collectionAlerts() []alert {
	return []alert{
		newAlert("GPUTallyCollectorSilent", critical, "5m",
			`time() - max by (job, instance) (last_over_time(gputally_collector_last_slot_timestamp_seconds[6h])) > 300`, text{
				summary: "Collector {{ $labels.instance }} has cut no slot for {{ $value | humanizeDuration }}",
				description: "The time of its GPUs becomes unobserved: no tenant is billed for it and nobody can be told who " +
					"held them. Also fires for six hours after a collector that is gone.",
				runbook: "Check that the process runs and its log. Disk full: see GPUTallySpoolFilling. A wall clock that " +
					"stepped back makes it wait on purpose (log line with the step). " +
					"A collector taken out of service for good falls silent here by itself; a simulated or replayed cluster needs " +
					"a silence.",
			}),
		newAlert("GPUTallyScrapeFailing", warning, "3m",
			`min by (job, instance, target) (gputally_exporter_scrape_success) == 0`, text{
				summary: "dcgm-exporter {{ $labels.target }} can't be scraped",
				description: "Collector {{ $labels.instance }} gets no GPU rows from {{ $labels.target }}; its node is " +
					"unobserved meanwhile.",
				runbook: "curl the target from the collector's host. An answer without rows means that dcgm-exporter lost its " +
					"host engine: restart it. " +
					"A time-out means that the exporter is slower than the slot.",
			}),
		newAlert("GPUTallySpoolFilling", warning, "15m",
			`gputally_spool_bytes > 64 * 1024 * 1024 and deriv(gputally_spool_bytes[15m]) > 0`, text{
				summary: "Spool of {{ $labels.instance }} holds {{ $value | humanize1024 }}B and grows",
				description: "Batches reach the node's disk but not the broker. Nothing is lost until the spool is full; then " +
					"the oldest batches go.",
				runbook: "Check the broker and the way to it: gputally_collector_publish_errors_total says whether produce " +
					"calls fail. " +
					"After the repair the spool drains by itself, in order.",
			}),
		newAlert("GPUTallySpoolNearlyFull", critical, "5m",
			`gputally_spool_bytes / (gputally_spool_max_bytes > 0) > 0.8`, text{
				summary:     "Spool of {{ $labels.instance }} is {{ $value | humanizePercentage }} full",
				description: "When it is full, the oldest batches are dropped: their time becomes unobserved for good.",
				runbook: "Repair what keeps it from draining (see GPUTallySpoolFilling). Until then a larger " +
					"collector.spool_max_bytes wins time, if the disk has the room.",
			}),
		newAlert("GPUTallySpoolDropped", critical, "0m",
			`increase(gputally_spool_dropped_records_total[15m]) > 0`, text{
				summary: "Spool of {{ $labels.instance }} dropped {{ $value }} records",
				description: "The spool was full and the oldest batches are lost. The loss is announced as a gap, and the " +
					"ledger shows it as unobserved time.",
				runbook: "Repair what keeps the spool from draining (see GPUTallySpoolFilling), then raise its size if the " +
					"outage was an expected one.",
			}),
	}
}

func ingestAlerts() []alert {
	return []alert{
		newAlert("GPUTallyIngestLag", warning, "10m",
			`sum by (topic, group) (gputally_broker_consumer_lag_messages) > 5000`, text{
				summary: "Ingest is {{ $value }} messages behind on {{ $labels.topic }}",
				description: "Group {{ $labels.group }} reads slower than collectors write, or stands still. The ledger's " +
					"newest hours are incomplete.",
				runbook: "Look at gputally_ingest_retries_total: a step that is tried again and again names what is away (most " +
					"often the store). " +
					"Without retries, add an ingester, up to one per partition. The lag must be gone before the topic's retention " +
					"passes.",
			}),
		newAlert("GPUTallyIngestRefused", critical, "5m",
			`sum by (job, instance, step) (increase(gputally_ingest_retries_total{class="refused"}[15m])) > 0`, text{
				summary: "The store refuses {{ $labels.step }} of ingester {{ $labels.instance }}",
				description: "The store answers, and says no: a table or a right is missing, or it is of another version. That " +
					"does not pass by itself. Ingest waits; nothing is lost while the topic retains it.",
				runbook: "The ingester's log has the store's code and words (class=refused). A missing table or column: start " +
					"one ingester of the newest version, which brings the tables up to date (of a cluster: gputally migrate " +
					"--cluster). " +
					"A missing right: grant it. Ingest goes on by itself within a minute.",
			}),
		newAlert("GPUTallyDeadLetters", warning, "0m",
			`sum by (reason) (increase(gputally_ingest_dead_letters_total[15m])) > 0`, text{
				summary: "{{ $value }} messages were refused: {{ $labels.reason }}",
				description: "Ingest could not accept messages and moved on; they are in the topic gputally.dlq.v1 with reason " +
					"and position. Their slots are unobserved.",
				runbook: "Read the reason. Too old or too new: check the collector's clock. Undecodable: a collector of another " +
					"version, or not one of ours writes to the topic. " +
					"gputally dlq list shows each message. After the cause is gone, gputally dlq replay sends them again.",
			}),
	}
}

func ledgerAlerts() []alert {
	return []alert{
		newAlert("GPUTallyStale", critical, "10m",
			`time() - max by (cluster) (gputally_ledger_watermark_timestamp_seconds) > 900`, text{
				summary:     "The ledger of {{ $labels.cluster }} is {{ $value | humanizeDuration }} behind",
				description: "The watermark does not move: newer time is in no bucket yet, so usage and invoices lack it.",
				runbook: "In order: GPUTallyCollectorSilent, GPUTallyIngestLag, then the ledger's own log and " +
					"gputally_ledger_errors_total. " +
					"A cluster that is simulated, replayed or imported stands still on purpose: silence it by cluster.",
			}),
		newAlert("GPUTallyHoursDirty", warning, "1h",
			`min_over_time(gputally_ledger_dirty_hours[30m]) > 0`, text{
				summary: "{{ $value }} hours of {{ $labels.cluster }} wait to be recomputed",
				description: "Late data has come in for these hours, and their rows still rest on less. They can't be closed or " +
					"invoiced.",
				runbook: "gputally_ledger_hours_refused_total rising: raw rows are missing that the journal promised; run " +
					"gputally verify. " +
					"Otherwise the ledger is slower than late data comes in.",
			}),
		newAlert("GPUTallyTenantMappingDiffers", warning, "10m",
			`max by (job, instance) (gputally_ledger_tenant_mapping_differs) == 1`, text{
				summary: "The tenants file of {{ $labels.instance }} is not the one in force",
				description: "Another service has started an epoch with another tenant mapping, and this one follows it: usage " +
					"is named by that one's file.",
				runbook: "Give all services of the ledger the same tenants file, then restart them: the last one that starts " +
					"with a new mapping has its way. " +
					"The service's log has the SHA-256 of both; the table epochs has the text in force.",
			}),
		newAlert("GPUTallyGPUTimeUnobserved", warning, "30m",
			`sum by (cluster, cause) (gputally_analyzer_unobserved_gpu_hours) / on (cluster) group_left () sum by (cluster) (gputally_analyzer_capacity_gpu_hours) > 0.02`, text{
				summary: "{{ $value | humanizePercentage }} of the GPU time of {{ $labels.cluster }} was not observed in 24 h",
				description: "Cause {{ $labels.cause }}: unseen is a node or collector that was away, owners is a source of " +
					"owners that failed. Tenants are not billed for this time.",
				runbook: "gputally usage --by node shows where. unseen: GPUTallyCollectorSilent and GPUTallyScrapeFailing. " +
					"owners: the labels, kubelet or Slurm that attribution reads from.",
			}),
		newAlert("GPUTallyAnalyzerStale", warning, "10m",
			`time() - gputally_analyzer_last_run_timestamp_seconds > 1800`, text{
				summary:     "The analyzer has not finished a run for {{ $value | humanizeDuration }}",
				description: "Idle allocations and spikes are no longer found, and the alerts on them are as old.",
				runbook: "Read the analyzer's log: a failed run says why (gputally_analyzer_errors_total). Most often the " +
					"store is away or a query is over its limit.",
			}),
	}
}
