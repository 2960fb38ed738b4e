// Package app owns the data directory and the order in which services start
// and stop.
//
// Invariants: at most one process at a time holds a directory (flock on LOCK,
// released by the kernel however the process ends); run.json exists only while
// its writer holds the lock, or after it was killed, and the next holder
// removes it first; a directory of a newer format is never touched; services
// stop in the reverse of the order in which they started, each after all that
// started later have drained.
package app
