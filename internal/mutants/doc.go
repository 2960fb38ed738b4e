// Package mutants tests the tests (mutation testing): it changes one operator, bound or
// statement of a package at a time, at random, and the package's own tests must fail.
//
// Data in: the packages, a number of mutants and a seed; or a pattern of places, to
// retry surviving mutants. Data out: which mutants were killed and which survived, with
// their places; every 50 mutants the counts of each package. A mutant exists only in the
// build of one test run (go test -overlay). A mutant that doesn't compile isn't counted,
// and another one is drawn. `make mutants` runs it.
//
// Not changed, because no test should depend on them: generated code, constants, log
// lines and the conditions of statements that only log, histogram buckets, preallocation
// (the capacity of a slice, the size of a map), values that are returned beside an error
// or false, and the texts of returned errors.
package mutants
