// Package episode is the analyzer's one result: a stretch of time in which GPU
// time was wasted or used when it never is, with its owner, its exact wasted
// GPU-hours, their list cost and the figures that prove it.
//
// Invariants: an episode's id depends only on what it is and when it began, so
// a later run that sees more of it keeps the id; wasted time is added up as a
// rational number and rounded once, to 9 places.
package episode
