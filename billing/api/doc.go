// Package api is the finance API: HTTP over usage, anomalies, tenants, invoices, notes, drafts, adjustments, price
// books, exports and the audit log; described by OpenAPI 3.1 at /openapi.json and as a page at /docs.
//
// Data in: requests with a period, a range or a number; decisions (finalise a month, decide a note, approve, publish
// a price book) with an Idempotency-Key. Data out: JSON in which money, quantities and integers beyond 2^53 are
// strings, never floats; documents in their decided bytes; CSV files. Lists are paged by key: next in an answer is
// the cursor of the following page, which is bound to the query; items added or removed between two pages don't shift
// others.
//
// Invariants: every answer is bounded; every answer is in the description; every error is an RFC 9457 problem that
// names the parameter; no page loads anything from elsewhere; only the register decides, and a repeated request with
// the same key gets the outcome of the first, from any process. Errors of the store are logged, not shown; open
// hours, missing prices and conflicting decisions are explained in the answer (409). Package guard lists what is
// refused earlier.
package api
