// Package billing keeps the drafts of the current and the last month in sight:
// it rates them again and again and shows their totals as metrics.
//
// Data in: the ledger and the price book. Data out: metrics, and the checks C7
// and C8 for verify; documents, files and answers are made by its packages
// invoice, export, api and statement. Invariants: nothing is written; a month that could
// not be rated keeps its last totals and is counted as failed. What can go
// wrong: the store, or a model without a price, which the log names.
package billing
