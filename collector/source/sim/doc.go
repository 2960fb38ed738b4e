// Package sim is a labelled fleet simulator: a configuration, a seed and a slot
// go in, the batches of a plausible multi-tenant fleet come out, failures
// included, together with the list of incidents that were planted in it.
//
// Read is a pure function of (Config, slot): any slot read alone gives the same
// bytes as in sequence, so a restarted collector resumes anywhere at no cost.
// The only memory is a cache of day plans, which are pure values themselves.
//
// Invariants: power is a whole number of watts in every millisecond, so the
// energy of a time is an exact integer of millijoules whatever the slot's
// length; a lane (a leaf's replica) has at most one holder at a time; a board's
// leaves never exceed its slices. What can go wrong: a configuration that
// contradicts itself (refused by Validate, with the field) and a slot outside
// the declared window (refused by Read).
package sim
