// Package mutants tests the tests at random: it changes one operator, bound or
// statement of a package at a time, and the package's own tests have to fail.
//
// Data in: the packages, a number of mutants and a seed; or a pattern of places, to
// try again what survived. Data out: which mutants were killed, and which survived,
// with their place; how many of each package so far, every 50 mutants. Each mutant
// reaches only the build of one test run (go test -overlay). A mutant that does not
// compile is not counted, another one is drawn in its place. `make mutants` runs it.
//
// Left as they are, since no test should depend on them: generated code, constants,
// lines of the log and conditions of nothing else, the buckets of histograms, memory
// that is taken in advance (the capacity of a slice, the size of a map), what is
// returned beside an error or false, and the texts of errors that are returned.
package mutants
