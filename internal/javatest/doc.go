// Package javatest finds Java and the jars of a server that tests start, which
// `make test-deps` puts into .build. Only tests and test helpers import it.
package javatest
