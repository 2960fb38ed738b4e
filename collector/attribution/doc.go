// Package attribution says who had which GPU, from when to when.
//
// Data in: what a Reader (kubelet, Slurm, a file) answers when polled, once a
// second by default: a Snapshot of holdings. Data out: hold intervals in ms in
// the node's batches, the known number of replicas of each leaf, and whether
// attribution worked (R4).
//
// Invariants:
//   - A hold runs from the first poll that saw it to the first that did not; it
//     is exact to one poll.
//   - A moment is known when a reader's last good poll lies at most stale_after
//     back. A slot with an unknown moment in its observed part has attribution
//     failed: nothing of it is called free.
//   - A holding whose device was there and is gone is counted and holds nothing.
//     One whose device was never there means another one, whose time would look
//     free: it fails the slot and is named.
//   - With several readers the first that names an owner of a leaf decides; the
//     next ones own what is left.
//
// What can go wrong: a reader hangs (bounded by a timeout, counts as failed), a
// reader answers nonsense (its error names it), the wall clock steps (open holds
// start anew at the new time).
package attribution
