// Package seeded tests the tests: each of its bugs is put into a copy of one
// file, and the test that is named for it has to fail.
//
// Data in: bugs as replacements of text. Data out: whether each was caught. The
// copies reach only the build of that one test run (go test -overlay), so that
// no switch stands in code that ships. A file that has changed so much that a
// bug no longer fits is an error. `make seeded` runs it.
package seeded
