// Package gpustate stores the state of a GPU that survives a reading and a restart: the energy counter's last value,
// of which only the increase is used (R16), the last XIDs, and the health flags that fatal XIDs set until a reset
// clears them (R9).
//
// A source uses it per GPU and reading, and writes its State into a File; a file of another kind, format or cluster
// is refused. The file isn't synced: a power failure loses at most the last readings, and an incomplete file is
// detected.
package gpustate
