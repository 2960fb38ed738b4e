package main

import (
	"context"
	"errors"

	"github.com/gputally/gputally/internal/fault"
)

// The exit codes, for scripts.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitEnvironment = 3
	exitInterrupted = 130 // 128 + SIGINT, as shells have it
)

const exitCodesHelp = `Exit codes:
  0    done; every check held
  1    a check failed, or the command could not do what it was asked
  2    the command line or the configuration is wrong
  3    the environment is: data directory in use, port in use, disk full,
       library missing or unusable, directory of a newer version, file or
       permission, a file that another user could have written
  130  interrupted`

// usageError is a wrong command line or configuration.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Class is fault.Invalid.
func (usageError) Class() fault.Class { return fault.Invalid }

// quietError fails a command that has already printed why, such as verify.
type quietError struct{ reason string }

func (e quietError) Error() string { return e.reason }

// exitCode is 0 for nil, else the class's, or that of an interruption.
func exitCode(ctx context.Context, err error) int {
	class := fault.Of(err)
	switch {
	case err == nil:
		return exitOK
	case class != fault.Invalid && ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return class.Exit()
}
