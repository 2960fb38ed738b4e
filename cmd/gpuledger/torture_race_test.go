//go:build race

package main

// tortureRows fits a test run under the race detector.
const tortureRows = 200_000
