package commands

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/clock"
)

// Run is the whole program: it carries out the command line args and returns
// the exit code (see exit.go).
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := &cli.Session{Stdin: stdin, Stdout: stdout, Stderr: stderr, Clock: clock.Real(), Args: args}
	root := Root(s)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && !s.Started {
		err = cli.UsageError(fmt.Errorf("%w\n%s", misspelt(root, args, err), hint(root, args)))
	}
	return s.Report(ctx, err)
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

func Root(s *cli.Session) *cobra.Command {
	root := &cobra.Command{
		Use:   "gputally",
		Short: "Who used which GPU, what was wasted, and what each tenant owes",
		Long: "gputally turns what GPUs did into a ledger in which every GPU-millisecond stands in\n" +
			"exactly one bucket, and the ledger into invoices.\n\n" + cli.ExitCodesHelp,
		Example: cli.Examples(
			"gputally demo --once --data /tmp/demo", "a simulated month, its bill and its proof",
			"gputally standalone --data DIR --scrape http://127.0.0.1:9400/metrics", "meter a running dcgm-exporter",
			"gputally usage --data DIR --by tenant --from 2026-10-01T00:00:00Z --to 2026-11-01T00:00:00Z", "who used what",
			"gputally verify --data DIR", "prove that nothing is missing",
		),
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return s.OpenLog(cmd) },
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	flags := root.PersistentFlags()
	flags.StringVar(&s.ConfigPath, "config", "", "configuration `FILE` (default $"+settings.ConfigEnv+", DIR/"+settings.ConfigName+", else built in)")
	flags.StringVar(&s.LogLevel, "log-level", "", "log `LEVEL`: debug, info, warn or error (default: info for services, warn for the rest)")
	for _, group := range commandGroups(s) {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, cmd := range group.commands {
			cmd.GroupID = group.title
			root.AddCommand(cmd)
		}
	}
	root.SetHelpCommandGroupID(helpGroup)
	return root
}
