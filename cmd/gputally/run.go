package main

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

// session is what one invocation of the command has: its streams, its clock
// and the flags that every command takes.
type session struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	clock          clock.Clock
	args           []string
	started        bool // a command's own code runs: what fails now is no usage error
	resumes        bool // the same command, given again, goes on where this one was stopped

	configPath string
	logLevel   string
	log        *slog.Logger
}

// Run is the whole program: it carries out the command line args and returns
// the exit code (see exit.go).
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := &session{stdin: stdin, stdout: stdout, stderr: stderr, clock: clock.Real(), args: args}
	root := s.rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && !s.started {
		err = usageError{fmt.Errorf("%w\n%s", misspelt(root, args, err), hint(root, args))}
	}
	return s.report(ctx, err)
}

// misspelt tells of a subcommand that there isn't, rather than of a flag that
// the command above it doesn't have; other errors stay.
func misspelt(root *cobra.Command, args []string, err error) error {
	found, rest, findErr := root.Find(args)
	if findErr != nil || found == root || !found.HasAvailableSubCommands() || len(rest) == 0 || strings.HasPrefix(rest[0], "-") {
		return err
	}
	near := ""
	found.SuggestionsMinimumDistance = 2 // letters that differ; cobra sets it for the root alone
	if names := found.SuggestionsFor(rest[0]); len(names) > 0 {
		near = ", did you mean " + strings.Join(names, " or ") + "?"
	}
	return fmt.Errorf("unknown command %q for %q%s", rest[0], found.CommandPath(), near)
}

// hint points at the help of the command that was meant.
func hint(root *cobra.Command, args []string) string {
	path := root.CommandPath()
	if found, _, err := root.Find(args); err == nil {
		path = found.CommandPath()
	}
	return fmt.Sprintf("%s --help shows how it is used", path)
}

func (s *session) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "gputally",
		Short: "Who used which GPU, what was wasted, and what each tenant owes",
		Long: "gputally turns what GPUs did into a ledger in which every GPU-millisecond stands in\n" +
			"exactly one bucket, and the ledger into invoices.\n\n" + exitCodesHelp,
		Example: examples(
			"gputally demo --once --data /tmp/demo", "a simulated month, its bill and its proof",
			"gputally standalone --data DIR --scrape http://127.0.0.1:9400/metrics", "meter a running dcgm-exporter",
			"gputally usage --data DIR --by tenant --from 2026-10-01T00:00:00Z --to 2026-11-01T00:00:00Z", "who used what",
			"gputally verify --data DIR", "prove that nothing is missing",
		),
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return s.openLog(cmd) },
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	flags := root.PersistentFlags()
	flags.StringVar(&s.configPath, "config", "", "configuration `FILE` (default $"+configEnv+", DIR/"+configName+", else built in)")
	flags.StringVar(&s.logLevel, "log-level", "", "log `LEVEL`: debug, info, warn or error (default: info for services, warn for the rest)")
	for _, group := range s.commandGroups() {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, cmd := range group.commands {
			cmd.GroupID = group.title
			root.AddCommand(cmd)
		}
	}
	root.SetHelpCommandGroupID(helpGroup)
	return root
}

// run marks the point from which an error is the command's own.
func (s *session) run(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s.started = true
		return f(cmd.Context(), args)
	}
}

// serviceAnnotation marks the commands that run until they are stopped.
const serviceAnnotation = "service"

func (s *session) openLog(cmd *cobra.Command) error {
	text := s.logLevel
	if _, service := cmd.Annotations[serviceAnnotation]; text == "" && service {
		text = slog.LevelInfo.String()
	} else if text == "" {
		text = slog.LevelWarn.String()
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("log level %q: want debug, info, warn or error", s.logLevel)
	}
	s.log = slog.New(slog.NewTextHandler(s.stderr, &slog.HandlerOptions{Level: level}))
	return nil
}

// commandLine is how this invocation names itself in LOCK and run.json.
func (s *session) commandLine() string {
	return strings.Join(append([]string{"gputally"}, s.args...), " ")
}

// examples formats pairs of a command line and what it is for.
func examples(pairs ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		fmt.Fprintf(&b, "  # %s\n  %s\n", pairs[i+1], pairs[i])
	}
	return strings.TrimRight(b.String(), "\n")
}

// report prints what went wrong and returns the exit code.
func (s *session) report(ctx context.Context, err error) int {
	code := exitCode(ctx, err)
	var quiet quietError
	switch {
	case code == exitInterrupted && s.resumes:
		err = errors.New("interrupted; the same command goes on from here")
	case code == exitInterrupted:
		err = errors.New("interrupted")
	}
	if err != nil && !errors.As(err, &quiet) {
		_, _ = fmt.Fprintf(s.stderr, "gputally: %v\n", err) // the exit code says it too
	}
	return code
}
