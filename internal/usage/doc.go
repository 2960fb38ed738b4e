// Package usage reads the ledger, grouped by columns of the caller's choice.
//
// Data in: a Query (grouping columns, a range of UTC hours, optionally a tenant) and the view usage. Data out: rows
// with the seven buckets in slice-milliseconds, exact GPU-hours and energy, as values or as CSV. Invariants: in any
// grouping the sums equal the ledger's; no floats are used. Errors: an unknown column, hours that aren't whole, more
// rows than the caller allows.
package usage
