// Package imports reads recorded history into batches.
//
// In: JSON lines of the wire contract (Read); allocation records as CSV or JSON
// lines (ReadAllocations), and Slurm's accounting (ReadSacct). Out: encoded
// batches ascending by slot, with the window they declare and the slot length
// a new cluster takes, for the same spool and topic as everything else. Bad
// lines are listed with line and reason; the good ones go in.
//
// Records are kept as they were imported last (table allocations), and a Plan
// says anew, whole, each node and hour that comes out otherwise than it was
// said last (R1, R18): a Plan is a function of the records that stand, the
// options and what was said, so that the same file again says nothing, and a
// run that was stopped is done again.
//
// In a cluster that collectors measure, a Plan fills: it sends batches of the
// cluster's own slots, of a rank below every other, for what no collector told
// of, with the leaves that the last batch before had. Then it is a function of
// the journal's gaps, too. Each ms of a record is filled, skipped because
// somebody saw it, or refused by name.
//
// What can go wrong: records that name no GPU in such a cluster, another source
// of the same node (RefusedError), a pool too large for a message.
package imports
