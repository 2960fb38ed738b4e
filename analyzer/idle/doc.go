// Package idle finds idle allocations: leaves that an owner held for hours with
// evidence of no work. Rows of the ledger go in, one owner's time on one leaf in
// one UTC hour each; episodes come out.
//
// Three kinds of hours are told apart. An hour is idle when at least
// MinIdleShare of the held time is idle. It is unproven when nothing shows work
// but too little shows rest. It is active otherwise. Idle hours in a row make an
// episode; up to MaxBridgeHours unproven ones between two idle ones bridge it;
// an active hour, or an hour in which the owner doesn't hold the leaf or the
// ledger doesn't say so, ends it. Only time in the ledger's bucket idle is
// waste, so a bridge adds none of its unproven time: a broken profiler never
// turns into an accusation.
package idle
