// Package check is the interface by which each component exports its invariants (C1 to C9) to `gputally verify`: a
// Check returns a Result with its figures and the first violations.
//
// Invariants: one Result per Check, in the order given; a check that can't be completed is a failed check, never a
// passed one; checks are exact, without tolerance.
package check
