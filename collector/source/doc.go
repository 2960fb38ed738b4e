// Package source is the seam between the slot loop and whatever watches GPUs:
// a slot goes in, one batch of facts per node that was seen comes out. A
// source knows nothing of identity, spool or topic, and states facts only
// (R1): a value it can't vouch for is absent, and a node it could not read has
// no batch.
package source
