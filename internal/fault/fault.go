// Package fault classifies errors by what whoever asked can do about them. The class
// is stated where the error is made, and is the only thing that the exit code of a
// command and the status of a problem document (RFC 9457) are read from.
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
	Internal    Class = iota // an error of the program, or of something behind it: the log says more
	Invalid                  // the command line, the configuration or the request is wrong: ask otherwise
	NotFound                 // what was named is not there
	Conflict                 // what was decided or measured before stands against it
	Changed                  // it is not, or no longer, what the request expected: look at it again
	Limited                  // a quota is used up: ask later
	Environment              // the machine lacks something, or has it in use: mend that
)

// classes has, for each class, the exit code of a command and the HTTP status.
var classes = [...]struct{ exit, status int }{
	Internal:    {1, http.StatusInternalServerError},
	Invalid:     {2, http.StatusUnprocessableEntity},
	NotFound:    {1, http.StatusNotFound},
	Conflict:    {1, http.StatusConflict},
	Changed:     {1, http.StatusPreconditionFailed},
	Limited:     {1, http.StatusTooManyRequests},
	Environment: {3, http.StatusInternalServerError},
}

// Exit is the exit code of a command that ends with such an error.
func (c Class) Exit() int { return classes[c].exit }

// Status is the HTTP status of its problem document.
func (c Class) Status() int { return classes[c].status }

// Classified is an error that states its class.
type Classified interface {
	error
	Class() Class
}

// New makes an error of a class, as fmt.Errorf does.
func New(class Class, format string, args ...any) error {
	return &classified{fmt.Errorf(format, args...), class}
}

type classified struct {
	error
	class Class
}

// Class is the one that New was given.
func (c *classified) Class() Class { return c.class }

func (c *classified) Unwrap() error { return errors.Unwrap(c.error) }

// environmental are the operating system's errors that a person has to mend.
var environmental = []error{
	syscall.EADDRINUSE, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, fs.ErrPermission,
	fs.ErrNotExist,
}

// Of is the class of an error, or of the first error in its tree that states one;
// Internal where none does.
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
