// Package invoice drafts invoices from the ledger: one per tenant and month,
// and the platform's account (R8, R17, R20).
//
// Data in: usage_hourly, aggregated to rating rows by the store and read hour
// by hour, and a price book. Data out: documents in canonical JSON, the same
// bytes for the same usage and prices (C8). Invariants: C7a, C7b, C7c and C7e
// hold, or there is no document. What can go wrong: a model or an hour without
// a price, which the error names with what to add where.
package invoice
