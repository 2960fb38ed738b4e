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
// run that was stopped is done again. What can go wrong: a cluster that
// somebody else speaks of (RefusedError), a pool too large for a message.
package imports
