package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/internal/clock"
)

// Sayf tells people something on stderr; no step fails because that does.
func (s *Session) Sayf(format string, args ...any) { _, _ = fmt.Fprintf(s.Stderr, format, args...) }

// Writef prints a part of an answer.
func (s *Session) Writef(format string, args ...any) error {
	if _, err := fmt.Fprintf(s.Stdout, format, args...); err != nil {
		return fmt.Errorf("print answer: %w", err)
	}
	return nil
}

// Session is what one invocation of the command has: its streams, its clock
// and the flags that every command takes.
type Session struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Clock          clock.Clock
	Args           []string
	Started        bool // a command's own code runs: what fails now is no usage error
	Resumes        bool // the same command, given again, goes on where this one was stopped

	ConfigPath string
	LogLevel   string
	Log        *slog.Logger
}

// Run marks the point from which an error is the command's own.
func (s *Session) Run(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s.Started = true
		return f(cmd.Context(), args)
	}
}

// ServiceAnnotation marks the commands that run until they are stopped.
const ServiceAnnotation = "service"

func (s *Session) OpenLog(cmd *cobra.Command) error {
	text := s.LogLevel
	if _, service := cmd.Annotations[ServiceAnnotation]; text == "" && service {
		text = slog.LevelInfo.String()
	} else if text == "" {
		text = slog.LevelWarn.String()
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("log level %q: want debug, info, warn or error", s.LogLevel)
	}
	s.Log = slog.New(slog.NewTextHandler(s.Stderr, &slog.HandlerOptions{Level: level}))
	return nil
}

// CommandLine is how this invocation names itself in LOCK and run.json.
func (s *Session) CommandLine() string {
	return strings.Join(append([]string{"gputally"}, s.Args...), " ")
}

// Examples formats pairs of a command line and what it is for.
func Examples(pairs ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		fmt.Fprintf(&b, "  # %s\n  %s\n", pairs[i+1], pairs[i])
	}
	return strings.TrimRight(b.String(), "\n")
}

// Report prints what went wrong and returns the exit code.
func (s *Session) Report(ctx context.Context, err error) int {
	code := ExitCode(ctx, err)
	var quiet quietError
	switch {
	case code == ExitInterrupted && s.Resumes:
		err = errors.New("interrupted; the same command goes on from here")
	case code == ExitInterrupted:
		err = errors.New("interrupted")
	}
	if err != nil && !errors.As(err, &quiet) {
		_, _ = fmt.Fprintf(s.Stderr, "gputally: %v\n", err) // the exit code says it too
	}
	return code
}
