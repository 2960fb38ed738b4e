package rules

func billingAlerts() []alert {
	return []alert{
		newAlert("GPUTallyAdjustmentsPending", info, "1h",
			`max by (job, period) (gputally_billing_pending_adjustments) > 0`, text{
				summary: "{{ $value }} finalised invoices of {{ $labels.period }} no longer rest on what the ledger says",
				description: "Late or corrected data, or another tenant mapping, changed hours that were invoiced. The invoices " +
					"stay as they are until notes are decided.",
				runbook: "gputally invoice adjustments --period {{ $labels.period }} lists tenant, reason, hours and amount. " +
					"gputally invoice note decides one, as a credit or debit note; gputally invoice evidence and explain say what " +
					"changed.",
			}),
		newAlert("GPUTallyDraftsWithheld", warning, "1h",
			`max by (job, period, reason) (gputally_invoice_drafts_withheld) > 0`, text{
				summary: "{{ $value }} drafts of {{ $labels.period }} can't be finalised: {{ $labels.reason }}",
				description: "Hours are left out of them: of a model without a rate (no_rate), or with sums that can't be " +
					"billed (quarantined). The other tenants' drafts are whole.",
				runbook: "gputally invoice list --period {{ $labels.period }} names tenants, hours and GPUs. no_rate: add the " +
					"model to the price book and gputally prices load it. " +
					"quarantined: replace the node's batches of the hour with gputally import batches.",
			}),
		newAlert("GPUTallyBillingStale", warning, "10m",
			`time() - gputally_billing_last_run_timestamp_seconds > 1800`, text{
				summary: "Billing has not finished a run for {{ $value | humanizeDuration }}",
				description: "Totals of drafts are as old, adjustments are not looked for, and ClickHouse's copy of the " +
					"decisions stands still. Nothing is decided by itself, so nothing is wrong.",
				runbook: "Read the billing service's log: a failed run says why (gputally_billing_errors_total). " +
					"Decisions that were deleted: restore the topic gputally.decisions.v1 before anything else.",
			}),
		newAlert("GPUTallyDecisionsLost", critical, "0m",
			`gputally_decisions_whole == 0`, text{
				summary: "The decisions lack what their copy has, or are others",
				description: "The topic was deleted, cut off or edited. Nothing is finalised, noted, approved or published " +
					"until it is whole.",
				runbook: "gputally audit names the first offset. gputally audit restore brings the topic back from " +
					"decisions.copy_dir; keep the old one for whoever asks how that came.",
			}),
		newAlert("GPUTallyDecisionsNotCopied", warning, "15m",
			`gputally_decisions_copy_lag_messages > 0`, text{
				summary:     "{{ $value }} decisions are not in their copy",
				description: "They stand. Until they are copied the topic is the only place that has them.",
				runbook: "The service's log says why (gputally_decisions_copy_errors_total). Make room in " +
					"decisions.copy_dir, or bring its disk back: the copy goes on by itself.",
			}),
		newAlert("GPUTallyWitnessAway", warning, "15m",
			`gputally_decisions_witness_owed > 0`, text{
				summary: "A witness was not told the last head of the decisions",
				description: "What was decided stands. Until a witness is told, an edit of the newest decisions is not " +
					"noticed there.",
				runbook: "gputally_decisions_witness_total says which one fails, the service's log why. It is told the head " +
					"again by itself.",
			}),
		newAlert("GPUTallyDecisionsGrow", warning, "0m",
			`sum by (job, instance) (gputally_decisions_bytes) - sum by (job, instance) (gputally_decisions_bytes offset 1d) > 1e9`, text{
				summary: "{{ $value | humanize1024 }}B of decisions were added within a day",
				description: "The decisions are kept for ever and read whole at each start. Copies of usage are the most of an " +
					"honest log; a client that decides in a loop looks like this, too.",
				runbook: "gputally audit --parts lists what it is, and by whom. Take the rights on the topic from whoever " +
					"wrote it.",
			}),
	}
}
