// Package gpustate keeps what of a GPU outlives a reading and a restart: the
// energy counter's last value, which is worth only its movement (R16), the XIDs
// that were shown already, and the health flags that fatal ones set until a
// reset clears them (R9).
//
// A source asks it per GPU and reading, and writes its State into a File that a
// reader of another kind, format or cluster refuses. The file isn't synced: a
// power cut costs the last readings at most, and a torn file is known as one.
package gpustate
