// Package sim is a fleet simulator with labels: from a configuration, a seed and a slot it makes the batches of a
// plausible multi-tenant fleet, including failures, and the list of incidents planted in it.
//
// Read is a pure function of (Config, slot): reading any slot alone returns the same bytes as in sequence, so a
// restarted collector resumes anywhere at no cost. The only state is a cache of day plans, which are pure values
// themselves.
//
// Invariants: power is a whole number of watts in every millisecond, so the energy of a time is an exact integer of
// millijoules whatever the slot's length; a lane (a leaf's replica) has at most one holder at a time; a board's
// leaves never exceed its slices. Errors: an inconsistent configuration (Validate names the field) and a slot outside
// the window (Read).
package sim
