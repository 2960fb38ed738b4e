// Package programtest helps tests that run whole commands and processes: in the test's own
// process (Invoke, Start), or the built program (Spawn), on data directories of their own.
package programtest

import (
	"context"
	"os"
	"testing"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/commands"
)

// Main runs the tests of a package that starts commands in its own process. The test
// binary then also serves as the engine's helper process.
func Main(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == app.EngineCommandName {
		os.Exit(commands.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	// Under the race detector every helper process would sleep for a second when it exits.
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
