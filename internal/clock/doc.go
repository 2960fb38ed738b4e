// Package clock is the only place that reads the wall clock. Components take a Clock, so that tests control the time
// and a simulated month runs without waiting.
//
// Invariant: a Fake's time changes only by Advance or Set, and every timer due by the new instant has fired, in order
// of its deadline, when they return.
package clock
