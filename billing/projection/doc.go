// Package projection writes the decisions into ClickHouse for queries and dashboards: tables decisions, invoices and
// invoice_usage.
//
// Data in: the log of decisions. Data out: rows, the same for the same log.
//
// Invariants: the rows are never read to decide. The rows of invoices and usage are written before that of their
// message, so that a message in decisions is complete, and Project continues after the last one after a kill at any
// time; writing twice changes nothing. The rows contain the log's hash chain, and those of another log are refused.
//
// Errors: ClickHouse or the broker is unavailable: Project fails and is called again. The tables have rows of another
// log, or rows were lost: Rebuild. A document that doesn't match its record, or a copy of usage that can't be read,
// which only a foreign writer can produce: it is logged, left empty, and the check names it.
package projection
