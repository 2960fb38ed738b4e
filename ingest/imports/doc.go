// Package imports reads recorded history into batches.
//
// In: JSON lines of the wire contract, in any order, with copies. Out: encoded
// batches ascending by slot, with the window they declare and the slot length
// a new cluster takes from its earliest slot, for the same spool and topic as
// everything else. Bad lines are listed with line and reason; the good ones go
// in.
package imports
