// Package explain answers "why so much?" for one GPU and one hour.
//
// Data in: the ledger's row of the hour, and the hour computed again from raw by
// package ledger, piece by piece, each piece with the reason that settlement
// stored or that the hour gave. Data out: an Explanation: a paragraph in words,
// the pieces joined into lines (from when to when, which bucket, why, and on
// which evidence), who held what, the batches behind it.
//
// Nothing is decided here. The proof is that the hour computed again equals the
// stored row in every column, and that the lines sum to the row.
//
// What can go wrong: raw was dropped (figures only, Raw says so) or is damaged;
// the row is older than the journal (a note says so); of two batches with equal
// rev table samples keeps one's evidence, which is then not shown for the other.
package explain
