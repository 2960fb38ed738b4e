// Package api is the finance API: HTTP over usage, anomalies, tenants,
// invoices, notes, drafts, adjustments, price books, exports and the audit log;
// described by OpenAPI 3.1 at /openapi.json and as a page at /docs.
//
// Data in: requests with a period, a range or a number; decisions (finalise a
// month, decide a note, approve, publish a price book) with an Idempotency-Key.
// Data out: JSON in which money, quantities and integers beyond 2^53 are
// strings, never floats; documents in the bytes that were decided; files as CSV.
// Lists come in pages by key: an answer's next is the cursor of the page after
// it, a cursor names its query, and what comes or goes between two pages moves
// none of the others.
//
// Invariants: no answer is larger than its limit; every answer is in the
// description; every error is an RFC 9457 problem that names the parameter; no
// page loads from elsewhere; the register alone decides, and whoever asks again
// with the same key and request is told what the first one came to, whichever
// process answers. What can go wrong in the store is logged and kept; open hours,
// missing prices and decisions of others are told in words (409). Package guard
// says what is refused before all that.
package api
