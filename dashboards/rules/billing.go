package rules

func billingAlerts() []alert {
	return []alert{
		newAlert("GPULedgerAdjustmentsPending", info, "1h",
			`max by (job, period) (gpuledger_billing_pending_adjustments) > 0`, text{
				summary:     "{{ $value }} finalised invoices of {{ $labels.period }} no longer rest on what the ledger says",
				description: "Late or corrected data, or another tenant mapping, changed hours that were invoiced. The invoices stay as they are until notes are decided.",
				runbook: "gpuledger invoice adjustments --period {{ $labels.period }} lists tenant, reason, hours and amount. " +
					"gpuledger invoice note decides one, as a credit or debit note; gpuledger invoice evidence and explain say what changed.",
			}),
		newAlert("GPULedgerBillingStale", warning, "10m",
			`time() - gpuledger_billing_last_run_timestamp_seconds > 1800`, text{
				summary:     "Billing has not finished a run for {{ $value | humanizeDuration }}",
				description: "Totals of drafts are as old, adjustments are not looked for, and ClickHouse's copy of the decisions stands still. Nothing is decided by itself, so nothing is wrong.",
				runbook: "Read the billing service's log: a failed run says why (gpuledger_billing_errors_total). A model without a rate: add it to the price book and gpuledger prices load it. " +
					"Decisions that were deleted: restore the topic gpuledger.decisions.v1 before anything else.",
			}),
	}
}
