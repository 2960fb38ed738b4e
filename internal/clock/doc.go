// Package clock is the only place that reads the wall clock. Components take
// a Clock, so that tests move time by hand and a simulated month runs at once.
//
// Invariant: a Fake's time moves only by Advance, and every timer due by the
// new instant has fired, in order of its deadline, when Advance returns.
package clock
