// Package collector reads a source slot by slot and delivers batches reliably: it gives each batch its identity and
// the boot's running counters, appends it to the spool (fsync), and drains the spool into the topic in order, moving
// the spool's cursor after the broker's acknowledgement.
//
// Invariants:
//   - A slot of a node is emitted at most once, in ascending order, also across restarts and steps of the wall
//     clock: after a step back the loop waits, a step forward is a gap (R11).
//   - boot_ms is greater than any used before; seq runs from 0 without gaps over all nodes of the collector, and
//     batches that the spool had to drop are announced (C4).
//   - sampled = spooled + dropped{reason} in every batch (C1). sampled is counted when the slot ends, so that a
//     batch lost without a reason is noticed.
//   - A crash loses nothing that was spooled; a message may be sent twice.
//
// Errors: the source fails for a node (no batch; logged and counted); the disk is full (Live retries until the next
// slot is due, then drops and counts; Backfill retries until it succeeds); the collector stops before a batch is on
// disk (dropped and counted); the loop is delayed for slots (not read, counted as dropped); the broker is unavailable
// (the spool fills and drains later at full speed); the broker refuses a batch permanently (recorded as a loss of the
// spool until it is announced, logged and counted).
package collector
