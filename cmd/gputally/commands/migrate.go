package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/cmd/gputally/setup"
	"github.com/gputally/gputally/internal/cli"
)

func migrateCommand(s *cli.Session) *cobra.Command {
	var cluster string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring ClickHouse's tables up to this program's schema",
		Long: "Services do the same when they start, on one server. On a cluster it is this command's work: every\n" +
			"table becomes NAME_local, replicated in its shard, and NAME, Distributed over the shards. The servers\n" +
			"need the cluster in remote_servers, the macros {shard} and {replica}, and a Keeper. Run it once, and\n" +
			"again before the services of a newer gputally start.",
		Example: cli.Examples(
			"gputally migrate --config gputally.yaml", "the configured server",
			"gputally migrate --config gputally.yaml --cluster prod", "all servers of the cluster prod",
			"gputally migrate --cluster prod --dry-run", "the statements, for a review; needs no server",
		),
		Args: cobra.NoArgs,
		RunE: s.Run(func(ctx context.Context, _ []string) error {
			if dryRun {
				return setup.PrintMigrations(s, cluster)
			}
			return setup.Migrate(ctx, s, cluster)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&cluster, "cluster", "", "`NAME` of the cluster in ClickHouse's remote_servers, or a macro such as {cluster}")
	flags.BoolVar(&dryRun, "dry-run", false, "print all statements from the first on, and execute none")
	return cmd
}
