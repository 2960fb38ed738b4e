// Package idle finds idle allocations: leaves that an owner held for hours with
// evidence that no work was done. In: rows of the ledger, one owner's time on one leaf
// in one UTC hour each. Out: episodes.
//
// There are three kinds of hours. An hour is idle if at least MinIdleShare of the held
// time is idle. It is unproven if nothing shows work but there is too little evidence
// of idleness. Otherwise it is active. Consecutive idle hours make an episode. Up to
// MaxBridgeHours unproven hours between two idle ones don't interrupt it; an active
// hour does, and so does an hour in which the owner doesn't hold the leaf or for which
// the ledger has no data. Only time in the ledger's bucket idle is waste, so bridged
// unproven time never counts: missing metrics don't make an owner look wasteful.
package idle
