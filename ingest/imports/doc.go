// Package imports converts recorded history to batches.
//
// In: JSON lines of the wire format (Read); allocation records as CSV or JSON lines
// (ReadAllocations), and Slurm accounting (ReadSacct). Out: encoded batches, ascending
// by slot, with the window they declare and the slot length for a new cluster. They
// are sent through the same spool and topic as live batches. Bad lines are listed with
// line and reason; the others are imported.
//
// Imported records are kept in table allocations. A Plan publishes, as a whole, every
// node and hour whose content differs from what was published last (R1, R18). It
// depends only on the kept records, the options and what was published. So importing
// the same file again publishes nothing, and an interrupted run can be repeated.
//
// In a cluster with collectors a Plan only fills: it sends batches in the cluster's
// own slots, ranked below all others, for the time that no collector reported, with
// the leaves of the last batch before. Then it also depends on the gaps in the
// journal. Each ms of a record is filled, skipped because a collector reported it, or
// refused with a reason.
//
// Possible errors: records without GPU ids for a cluster with collectors, another
// source for the same node (RefusedError), a pool too large for one message.
package imports
