package main

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/gputally/gputally/internal/app"
	"github.com/gputally/gputally/internal/store/engine"
	"github.com/gputally/gputally/internal/trust"
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

// quietError fails a command that has already printed why, such as verify.
type quietError struct{ reason string }

func (e quietError) Error() string { return e.reason }

var environmental = []error{
	engine.ErrLibraryMissing, engine.ErrLibraryUntrusted, engine.ErrStart, syscall.EADDRINUSE, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS,
	fs.ErrPermission, fs.ErrNotExist,
}

func exitCode(ctx context.Context, err error) int {
	var usage usageError
	var locked *app.LockedError
	var format *app.FormatError
	var untrusted *trust.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		return exitUsage
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &locked), errors.As(err, &format), errors.As(err, &untrusted):
		return exitEnvironment
	}
	for _, target := range environmental {
		if errors.Is(err, target) {
			return exitEnvironment
		}
	}
	return exitFailed
}
