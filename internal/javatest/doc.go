// Package javatest finds Java and the jars of a server that tests start, which
// `make test-deps` puts into .build: only what supports tests imports it.
package javatest
