// Package pythontest finds Python programs that tests run, which `make
// test-deps` puts into .build/python. Only tests and test helpers import it.
//
// Data in: a program's name. Data out: its path and the folder of the installed
// packages. What can go wrong: the program is missing, which skips the test;
// with CI=true the test fails.
package pythontest
