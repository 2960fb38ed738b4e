// Package billing monitors the current and the last month: it rates them periodically, exposes their totals as
// metrics, finds finalised invoices whose usage in the ledger has changed, and projects the decisions into
// ClickHouse.
//
// Data in: the ledger, the price book in force, the log of decisions. Data out: metrics, rows of the decisions, and
// the checks C7 and C8 for verify; documents, files, answers and pages are made by its packages invoice, export, api
// and statement. Invariants: it decides nothing; a month that could not be rated keeps its last totals and is counted
// as failed. Errors: the store, the broker, or a model without a price, which is logged.
package billing
