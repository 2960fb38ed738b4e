// Package check is how each room exports its own invariants (C1 to C9 of the
// design) for `gputally verify`: a Check goes in, a Result with its figures
// and the first violations comes out.
//
// Invariants: one Result per Check, in the order given; a check that cannot be
// carried out is a failed check, never a passed one; checks are exact and have
// no tolerance.
package check
