// Package attribution determines who held which GPU, from when to when.
//
// Data in: Snapshots of holdings, polled from Readers (kubelet, Slurm, a file), once a second by default. Data out:
// hold intervals in ms in the node's batches, the number of replicas of each leaf, and whether attribution succeeded
// (R4).
//
// Invariants:
//   - A hold runs from the first poll that reported it to the first that did not; its precision is one poll.
//   - A moment is known if a reader's last successful poll is at most stale_after before it. If a moment in the
//     observed part of a slot is unknown, the slot's attribution has failed: none of its time is counted as free.
//   - A holding whose device existed and is gone is counted and holds nothing. If its device never existed, another
//     one is meant, whose time would be counted as free: the slot fails, and the log names the device.
//   - With several readers the first that names an owner of a leaf decides; the next ones own what is left.
//
// Errors: a reader hangs (bounded by a timeout, counts as failed), a reader returns invalid data (its error describes
// it), the wall clock steps (open holds start again at the new time).
package attribution
