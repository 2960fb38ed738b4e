// Package datadir manages the data directory of a standalone or demo: its lock, its format and its files.
//
// At most one process at a time holds a directory (flock on LOCK, which the kernel releases however the process
// ends). run.json exists only while its writer holds the lock, or after it was killed; the next holder removes it
// first. A directory of a newer format is refused and never changed.
package datadir
