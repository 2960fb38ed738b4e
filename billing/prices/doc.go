// Package prices reads the price book: effective-dated list rates, profile prices, tiers and tenant terms in one
// currency (R19).
//
// Data in: a YAML file. Data out: a Book whose versions are sorted by their effective hour; its normal form
// (Document), the differences between two books and their hours (Diff), suspicious values (Warnings), and rates of
// MIG profiles derived from those of whole GPUs (Derive). Invariants: every number is an exact non-negative decimal,
// every share is in 0…1, no two versions start at one instant, and every reserved model has a rate in its version; a
// derived rate is an exact fraction of the whole GPU's, rounded once, half-even, to 4 places. Errors concern the
// file; each has line, key and value, and all errors of a file are reported at once.
package prices
