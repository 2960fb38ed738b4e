// Package fault classifies errors by what the user can do about them. The class is set where the error is created; a
// command's exit code and the status of a problem document (RFC 9457) are derived from nothing else.
package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"syscall"
)

// Class is a class of errors.
type Class int

// The classes.
const (
	Internal    Class = iota // an error of the program or a service it uses: see the log
	Invalid                  // the command line, configuration or request is wrong: change it
	NotFound                 // the named object doesn't exist
	Conflict                 // an earlier decision or measurement contradicts it
	Changed                  // the state differs from what the request expected: read it again
	Limited                  // a quota is exhausted: retry later
	Environment              // the machine lacks something, or something is in use: fix that
)

// classes are the exit code and the HTTP status of each class.
var classes = [...]struct{ exit, status int }{
	Internal:    {1, http.StatusInternalServerError},
	Invalid:     {2, http.StatusUnprocessableEntity},
	NotFound:    {1, http.StatusNotFound},
	Conflict:    {1, http.StatusConflict},
	Changed:     {1, http.StatusPreconditionFailed},
	Limited:     {1, http.StatusTooManyRequests},
	Environment: {3, http.StatusInternalServerError},
}

// Exit is the exit code of a command that fails with such an error.
func (c Class) Exit() int { return classes[c].exit }

// Status is the HTTP status of the problem document.
func (c Class) Status() int { return classes[c].status }

// Classified is an error with a class.
type Classified interface {
	error
	Class() Class
}

// New returns an error with a class, formatted as by fmt.Errorf.
func New(class Class, format string, args ...any) error {
	return &classified{fmt.Errorf(format, args...), class}
}

type classified struct {
	error
	class Class
}

// Class is the class given to New.
func (c *classified) Class() Class { return c.class }

func (c *classified) Unwrap() error { return errors.Unwrap(c.error) }

// environmental are errors of the operating system that the user has to fix.
var environmental = []error{
	syscall.EADDRINUSE, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, fs.ErrPermission,
	fs.ErrNotExist,
}

// Of returns the class of the first error in the error's tree that has one; else Internal.
func Of(err error) Class {
	if c, ok := errors.AsType[Classified](err); ok {
		return c.Class()
	}
	for _, e := range environmental {
		if errors.Is(err, e) {
			return Environment
		}
	}
	return Internal
}
