package main

import (
	"context"
	"os"
	"testing"
)

// TestMain lets the test binary be the engine's helper process, as the program
// itself is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == engineCommandName {
		os.Exit(Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	if targets := os.Getenv(strangerEnv); targets != "" {
		tryTargets(targets)
		os.Exit(0)
	}
	// Under the race detector every helper would rest for a second at its end.
	if os.Getenv("GORACE") == "" {
		if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	removeProgram()
	removePrepared()
	os.Exit(code)
}
