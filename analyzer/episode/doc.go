// Package episode is the analyzer's result type: a time in which GPU time was wasted
// or used unusually, with its owner, the exact wasted GPU-hours, their list cost and
// the figures that prove it.
//
// Invariants: an episode's id depends only on its kind, its place and owner, and its
// start, so that a later run which finds a later end keeps the id. Wasted time is
// summed as a rational number and rounded once, to 9 places.
package episode
