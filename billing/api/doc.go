// Package api is the finance API: HTTP over usage, anomalies, tenants,
// invoices and their drafts, exports; described by OpenAPI 3.1 at
// /openapi.json and as a page at /docs.
//
// Data in: requests with a period, a range or a number. Data out: JSON in
// which money, quantities and integers beyond 2^53 are strings, never floats;
// files as CSV. Lists come in pages by key: an answer's next is the cursor of
// the page after it, a cursor names its query, and what comes or goes between
// two pages moves none of the others. Invariants: no answer is larger than its
// limit, every answer is in the description, every error is an RFC 9457 problem
// that names the parameter, no page loads from elsewhere. What can go wrong in
// the store or the price book is logged; the caller learns of missing prices in
// words. Package guard says what is refused before all that.
package api
