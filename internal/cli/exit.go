package cli

import (
	"context"
	"errors"

	"github.com/gputally/gputally/internal/fault"
)

// The exit codes, for scripts.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitEnvironment = 3
	ExitInterrupted = 130 // 128 + SIGINT, as shells have it
)

// ExitCodesHelp says in words what the exit codes mean.
const ExitCodesHelp = `Exit codes:
  0    done; every check passed
  1    a check failed, or the command could not do what was asked
  2    the command line, the configuration or the header of a usage file is
       wrong
  3    the environment prevents it: data directory or port in use, a data
       directory with other files in it, disk full, library missing or
       unusable, directory of a newer version, file permissions, a file that
       another user could have written
  130  interrupted`

// usageError is a wrong command line or configuration.
type usageError struct{ error }

// UsageError makes err one of the command line or the configuration: exit code 2.
func UsageError(err error) error { return usageError{err} }

func (e usageError) Unwrap() error { return e.error }

// Class is fault.Invalid.
func (usageError) Class() fault.Class { return fault.Invalid }

// quietError fails a command that has already printed why, such as verify.
type quietError struct{ reason string }

// Quiet fails a command that has already printed why: exit code 1, and no message.
func Quiet(reason string) error { return quietError{reason} }

func (e quietError) Error() string { return e.reason }

// ExitCode is 0 for nil, else the class's, or that of an interruption.
func ExitCode(ctx context.Context, err error) int {
	class := fault.Of(err)
	switch {
	case err == nil:
		return ExitOK
	case class != fault.Invalid && ctx.Err() != nil && errors.Is(err, context.Canceled):
		return ExitInterrupted
	}
	return class.Exit()
}
