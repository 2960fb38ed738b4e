package e2e

import (
	"os"
	"testing"

	"github.com/gputally/gputally/cmd/gputally/programtest"
)

func TestMain(m *testing.M) {
	if targets := os.Getenv(strangerEnv); targets != "" {
		tryTargets(targets)
		os.Exit(0)
	}
	programtest.Main(m)
}
