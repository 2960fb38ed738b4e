// Package explain answers why a GPU's hour was counted as it was.
//
// In: the ledger's row of the hour, and the hour as package ledger recomputes it from
// raw, in pieces, each with the reason that was stored with it or that follows from
// the hour. Out: an Explanation: a paragraph of text; the pieces joined to lines (from
// when to when, which bucket, why, on which evidence); who held what; the batches.
//
// Nothing is decided here. The proof of an explanation is that the recomputed hour
// equals the stored row in every column, and that the lines sum to the row.
//
// What can go wrong: raw was dropped (only figures; field Raw says so) or is damaged;
// the row is older than the journal (a note says so); of two batches with equal rev,
// table samples keeps the evidence of one, which is not shown for the other.
package explain
