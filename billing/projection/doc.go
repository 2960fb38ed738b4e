// Package projection brings the decisions into ClickHouse, where people and
// dashboards can ask about them: tables decisions, invoices and invoice_usage.
//
// Data in: the log of decisions. Data out: rows, the same for the same log.
//
// Invariants: nothing reads the rows to decide. The rows of invoices and usage
// are written before that of the message they come from, so that a message that
// is in decisions is whole, and Project goes on behind the last one after
// whatever killed it; writing twice changes nothing. The rows carry the log's
// hash chain, and are refused where it is another log's.
//
// What can go wrong: ClickHouse or the broker is away, then Project fails and is
// called again. The tables have rows of another log, or rows were lost: Rebuild.
// A document that isn't what its record says, or a copy of usage that can't be
// read, which only a foreign writer can leave: it is logged, left empty, and the
// check names it.
package projection
