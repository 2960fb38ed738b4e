// Package invoice drafts invoices from the ledger, one per tenant and month, with the platform's account, and keeps
// the register of decided invoices (R6, R8, R17, R20).
//
// Data in: usage_hourly, aggregated to rating rows by the store and read hour by hour; price books; the log of
// decisions. Data out: documents in canonical JSON, the same bytes for the same usage and prices (C8); decisions:
// price books, frozen hours, invoices, notes, approvals. Invariants: C7a, C7b, C7c and C7e hold, or there is no
// document; a decided document follows only from its own copy of usage and its book; only closed hours are decided
// (R3); a crash leaves complete invoices only. Errors: a model or an hour without a price, open hours, a conflict
// with an earlier decision.
package invoice
