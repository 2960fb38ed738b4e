// Package api is the finance API: read-only HTTP over invoices, usage and
// anomalies, described by OpenAPI 3.1 at /openapi.json.
//
// Data in: requests with a period or a range. Data out: JSON in which money
// and quantities are strings, never floats; errors are RFC 9457 problems that
// name the parameter. Invariants: nothing is written, no answer is larger than
// its limit, no page loads from elsewhere. What can go wrong in the store or
// the price book is logged; the caller learns of missing prices in words.
package api
