// Package spool keeps a collector's records on the node's disk until the broker
// has acknowledged them: append-only segments with a checksum per record, an
// fsync before each acknowledgement, and a cursor that survives crashes.
//
// Data in: records (opaque bytes), in groups. Data out: the same records in
// order of their ids, at least once each.
//
// Invariants: ids are 1, 2, 3, … without holes in the order of Append; a record
// is acknowledged only when it would survive a power cut; and each id ever
// given is in exactly one place, so that (C2)
//
//	Appended = Cursor + Records + Dropped
//
// What can go wrong: a full or broken disk fails Append and nothing else; a full
// spool drops its oldest records or makes Append wait (Policy); damaged records
// are left out, counted and told as ranges. The directory is never cleaned up
// to start again. FORMAT.md has the bytes and the crash cases.
package spool
