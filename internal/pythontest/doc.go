// Package pythontest finds Python programs that tests run, which `make
// test-deps` puts into .build/python: only what supports tests imports it.
//
// Data in: a program's name. Data out: its path and the folder of the installed
// packages. What can go wrong: it isn't there, which skips a test on a laptop
// and fails it in CI.
package pythontest
