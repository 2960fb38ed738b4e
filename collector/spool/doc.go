// Package spool stores a collector's records on the node's disk until the broker has acknowledged them: append-only
// segments with a checksum per record, an fsync before each acknowledgement, and a cursor that survives crashes.
//
// Data in: records (opaque bytes), in groups. Data out: the same records in order of their ids, at least once each.
//
// Invariants: ids are 1, 2, 3, … without gaps in the order of Append; a record is acknowledged only when it would
// survive a power failure; and each assigned id is in exactly one of three states, so that (C2)
//
//	Appended = Cursor + Records + Dropped
//
// Errors: a full or broken disk fails Append only; a full spool drops its oldest records or makes Append wait
// (Policy); damaged records are skipped, counted and announced as ranges. The directory is never cleared to start
// again. FORMAT.md describes the bytes and the crash cases.
package spool
