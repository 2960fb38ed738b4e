// Package mutants tests the tests at random: it changes one operator, bound or
// statement of a package at a time, and the package's own tests have to fail.
//
// Data in: the packages, a number of mutants and a seed. Data out: which mutants
// were killed, and which survived, with their place. Each mutant reaches only the
// build of one test run (go test -overlay). A mutant that does not compile is not
// counted, another one is drawn in its place. `make mutants` runs it.
package mutants
