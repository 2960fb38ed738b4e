// Package billing keeps the current and the last month in sight: it rates them
// again and again, shows their totals as metrics, looks whether finalised
// invoices still rest on what the ledger says, and brings what was decided into
// ClickHouse.
//
// Data in: the ledger, the price book in force, the log of decisions. Data out:
// metrics, rows of the decisions, and the checks C7 and C8 for verify;
// documents, files, answers and pages are made by its packages invoice, export,
// api and statement. Invariants: it decides nothing; a month that could not be
// rated keeps its last totals and is counted as failed. What can go wrong: the
// store, the broker, or a model without a price, which the log names.
package billing
