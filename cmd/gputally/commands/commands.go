// Package commands is the table of the program's commands: what help says of each, its
// flags, and which use case it calls.
//
// A command's file knows the use cases (cmd/gputally/app and the packages beside it) and
// internal/cli, no component and no other command; a linter and a test check that.
package commands

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/clock"
)

// groups are the commands, as help lists them.
func groups() []cli.Group {
	return []cli.Group{
		{Title: "Run:", Commands: []cli.Command{demoCommand(), standaloneCommand(), importCommand()}},
		{Title: "Ask a ledger:", Commands: []cli.Command{
			statusCommand(), verifyCommand(), usageCommand(), explainCommand(), anomaliesCommand(), forecastCommand(),
			invoiceCommand(), pricesCommand(), exportCommand(), auditCommand(), policyCommand(), inventoryCommand(),
		}},
		{Title: "Repair a ledger:", Commands: []cli.Command{dlqCommand(), replayCommand(), analyzeCommand()}},
		{Title: "Analyse other data:", Commands: []cli.Command{detectCommand()}},
		{Title: "Run the services, each on its own:", Commands: serviceCommands()},
		{Title: "Help and configuration:", Commands: []cli.Command{
			configCommand(), migrateCommand(), dashboardsCommand(), versionCommand(), engineCommand(),
		}},
	}
}

// Run is the whole program: it carries out the command line args and returns the exit
// code.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := &cli.Session{Stdin: stdin, Stdout: stdout, Stderr: stderr, Clock: clock.Real(), Args: args}
	return s.Execute(ctx, Root(s))
}

// Root is the command above all others, as cobra has it.
func Root(s *cli.Session) *cobra.Command {
	root := cli.Command{
		Use:   "gputally",
		Short: "Who used which GPU, what was wasted, and what each tenant owes",
		Long: "gputally turns GPU measurements into a ledger in which every GPU-millisecond is in\n" +
			"exactly one bucket, and the ledger into invoices.\n\n" + cli.ExitCodesHelp,
		Examples: []string{
			"gputally demo --once --data /tmp/demo", "a simulated month with invoices and checks",
			"gputally standalone --data DIR --scrape http://127.0.0.1:9400/metrics", "meter a running dcgm-exporter",
			"gputally usage --data DIR --by tenant --from 2026-10-01T00:00:00Z --to 2026-11-01T00:00:00Z", "who used what",
			"gputally verify --data DIR", "check that nothing is missing or counted twice",
		},
	}.Root(s, groups())
	flags := root.PersistentFlags()
	flags.StringVar(&s.ConfigPath, "config", "",
		"configuration `FILE` (default $"+settings.ConfigEnv+", DIR/"+settings.ConfigName+", else built in)")
	flags.StringVar(&s.LogLevel, "log-level", "",
		"log `LEVEL`: debug, info, warn or error (default: info for services, warn for the rest)")
	return root
}
