package programtest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gputally/gputally/cmd/gputally/commands"
	"github.com/gputally/gputally/internal/cli"
)

// MustInvoke returns what a command prints, and fails the test if its exit code isn't 0.
func MustInvoke(t *testing.T, args ...string) string {
	t.Helper()
	got := Invoke(t, args...)
	if got.Code != cli.ExitOK {
		t.Fatalf("gputally %s: got %+v", strings.Join(args, " "), got)
	}
	return got.Stdout
}

// Outcome is the result of one invocation of the program.
type Outcome struct {
	Code           int
	Stdout, Stderr string
}

// Came makes an Outcome.
func Came(code int, stdout, stderr string) Outcome { return Outcome{code, stdout, stderr} }

// Invoke runs a command in the test's own process.
func Invoke(t *testing.T, args ...string) Outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := commands.Run(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
	return Outcome{code, stdout.String(), stderr.String()}
}
