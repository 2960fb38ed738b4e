// Package cli is what every command has in common: commands as data, the flags that
// many of them take, answers as table, CSV or JSON, progress, and exit codes.
//
// Data in: the command line and the streams of one invocation (Session). Data out: an
// exit code, an answer on stdout, and what people should know on stderr. Names that
// come from outside can neither steer a terminal nor become a spreadsheet's formula.
package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/internal/clock"
)

// Session is one invocation: its streams, its clock, and the values of the flags that
// many commands have. A flag that the command does not take is zero.
type Session struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Clock          clock.Clock
	Args           []string
	Log            *slog.Logger
	// Started is set once the command's own code runs. An error before that is a wrong
	// command line.
	Started bool
	Command string // that runs, such as "gputally prices publish"

	ConfigPath, LogLevel string
	Data                 string // directory; empty: the configured servers
	Format               string // --output
	Month                Month
	Range                TimeRange
	Tenant               string
	By, Key, Expect      string
	Listen               string

	resumes bool
	changed func(flag string) bool
}

// Given says that a flag of this name is on the command line.
func (s *Session) Given(flag string) bool { return s.changed(flag) }

// Who is the name that a decision is recorded under: --by, else the user who runs this.
func (s *Session) Who() string { return cmp.Or(s.By, CurrentUser(), "unknown") }

// CurrentUser is for the record only; empty where the system has no name.
func CurrentUser() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// Sayf prints a note on stderr, made printable. A write error is ignored: it must not fail the command.
func (s *Session) Sayf(format string, args ...any) {
	_, _ = io.WriteString(s.Stderr, PrintableLines(fmt.Sprintf(format, args...)))
}

// Writef prints a part of an answer, made printable.
func (s *Session) Writef(format string, args ...any) error {
	return s.Verbatim(PrintableLines(fmt.Sprintf(format, args...)))
}

// Heading prints an empty line, and a line that begins with a title, bold on a terminal.
func (s *Session) Heading(title, rest string) error {
	return s.Verbatim("\n" + Bold(PrintableLines(title), Colour(s.Stdout)) + PrintableLines(rest) + "\n")
}

// Verbatim prints a part of an answer byte by byte, such as a document that has a hash.
func (s *Session) Verbatim(text string) error {
	if _, err := io.WriteString(s.Stdout, text); err != nil {
		return fmt.Errorf("print answer: %w", err)
	}
	return nil
}

// PrintJSON prints an answer that is one document as indented JSON.
func (s *Session) PrintJSON(document any) error {
	enc := json.NewEncoder(s.Stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(document); err != nil {
		return fmt.Errorf("print answer: %w", err)
	}
	return nil
}

// Print prints an answer of rows as --output says.
func (s *Session) Print(t Table) error { return t.Write(s.Stdout, s.Format, Colour(s.Stdout)) }

// serviceAnnotation marks the commands that run until they are stopped.
const serviceAnnotation = "service"

func (s *Session) openLog(cmd *cobra.Command) error {
	text := s.LogLevel
	if _, service := cmd.Annotations[serviceAnnotation]; text == "" && service {
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

// CommandLine is the invocation as the files LOCK and run.json show it: the command and its data directory. The values
// of other flags are left out, since a secret may be among them.
func (s *Session) CommandLine() string {
	if s.Data == "" {
		return s.Command
	}
	return s.Command + " --data " + s.Data
}
