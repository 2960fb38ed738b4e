package api

// routes are all operations.
func (a *api) routes() []route {
	const document = "/invoices/{number}"
	return []route{
		get("/tenants", "list-tenants", tagUsage, by(a.listTenants), "Tenants with usage, their time zones and months"),
		get("/usage", "query-usage", tagUsage, by(a.queryUsage), "Usage of a range, grouped by columns"),
		get("/explanation", "explain-gpu-hour", tagUsage, by(a.explain),
			"One GPU-hour explained in words, by reason and evidence, as gputally explain prints it"),
		get("/anomalies", "list-anomalies", tagUsage, by(a.listAnomalies), "Episodes of waste that overlap a range"),
		post("/anomalies/marks", "mark-anomalies", tagDecisions, by(a.mark),
			"Acknowledge, mute or judge a finding, mute findings by a pattern, or clear marks"),
		get("/invoices", "list-invoices", tagInvoices, by(a.listInvoices),
			"Invoices, notes and drafts, without their lines"),
		get(document, "show-invoice", tagInvoices, by(a.showInvoice),
			"A finalised invoice or note, byte for byte as it was decided").answers(ownBytes),
		get(document+"/lines", "list-lines", tagInvoices, by(a.listLines), "Lines of a finalised invoice or note"),
		get(document+"/notes", "list-notes", tagInvoices, by(a.listNotes), "Credit and debit notes on an invoice"),
		get(document+"/verification", "verify-invoice", tagInvoices, by(a.verifyInvoice),
			"Recompute the document from its own copy of usage and compare the bytes"),
		get(document+"/lines/{line}/evidence", "show-evidence", tagInvoices, by(a.showEvidence),
			"The GPU-hours and batches behind a line"),
		get("/drafts/{period}/{tenant}", "show-draft", tagInvoices, by(a.showDraft),
			"A tenant's draft with its lines, computed now"),
		get("/platform/{period}", "show-platform", tagInvoices, by(a.showPlatform),
			"The platform's account of a month: what no tenant is billed for"),
		get("/adjustments", "list-adjustments", tagInvoices, by(a.listAdjustments),
			"Pending notes: invoices whose usage has changed since"),
		post("/invoices", "finalise-invoice", tagDecisions, by(a.finalise),
			"Finalise a tenant's month; its invoice never changes afterwards"),
		post(document+"/notes", "correct-invoice", tagDecisions, by(a.correct),
			"Decide the pending adjustment of an invoice: a credit or debit note"),
		post("/approvals", "approve", tagDecisions, by(a.approve),
			"Approve the draft of a tenant's month, or its pending note, byte for byte"),
		get("/price-books", "list-price-books", tagDecisions, by(a.listBooks), "Published price books"),
		get("/price-books/{sha256}", "show-price-book", tagDecisions, by(a.showBook),
			"A price book with its text, by hash, or the one in force"),
		post("/price-books", "publish-price-book", tagDecisions, by(a.publish), "Publish a price book; it is then in force"),
		get("/decisions", "list-decisions", tagDecisions, by(a.listDecisions),
			"The audit log: every decision, accepted or refused, with its hash chain"),
		get("/exports/chargeback.csv", "export-chargeback", tagExports, by(a.exportChargeback),
			"The month's invoice lines as CSV").answers(aFile),
		get("/exports/focus.csv", "export-focus", tagExports, by(a.exportFocus),
			"The month as FOCUS (FinOps Open Cost and Usage Specification): "+
				"invoices, notes billed in it, drafts, the platform").answers(aFile),
	}
}
