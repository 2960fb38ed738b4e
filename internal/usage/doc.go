// Package usage reads the ledger grouped by what people ask for.
//
// Data in: a Query (columns to group by, a range of UTC hours, perhaps a
// tenant) and the view usage. Data out: rows of slice-milliseconds in the
// seven buckets, exact GPU-hours and energy, as values or as CSV. Invariants:
// over any grouping the sums are the ledger's; nothing passes through a float.
// What can go wrong: a column that isn't one, hours that aren't whole, more
// rows than the caller allows.
package usage
