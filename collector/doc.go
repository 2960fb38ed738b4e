// Package collector turns what a source sees into batches that survive: slot
// by slot it reads the source, gives each batch its identity and the boot's
// running counters, appends it to the spool (fsync), and drains the spool into
// the topic in order, moving the spool's cursor after the broker's word.
//
// Invariants:
//   - A slot of a node is emitted at most once, in ascending order, also over
//     restarts and steps of the wall clock: after a step back the loop waits, a
//     step forward is a gap (R11).
//   - boot_ms is greater than any used before; seq runs from 0 without holes over
//     all nodes of the collector, and what the spool had to drop is announced (C4).
//   - sampled = spooled + dropped{reason} in every batch (C1). What is sampled is
//     counted when it is cut, so that a batch lost without a reason shows.
//   - Nothing that was spooled is lost by a crash; a message may be sent twice.
//
// What can go wrong: the source fails for a node (no batch, an error that is
// logged and counted), the disk fills (live: retried until the next slot is due,
// then dropped and counted; backfill: retried until it succeeds), a stop comes
// before the disk took a batch (dropped and counted), the loop is held up for
// slots (never read, dropped and counted), the broker is away (the spool fills
// and drains later at full speed), a batch that the broker refuses for good
// (kept as a loss of the spool until it is announced, logged and counted).
package collector
