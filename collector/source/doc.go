// Package source is the interface between the slot loop and the sources of GPU readings: Read takes a slot and
// returns one batch of facts per observed node. A source doesn't deal with identity, spool or topic, and returns
// facts only (R1): an uncertain value is absent, and a node that could not be read has no batch.
package source
