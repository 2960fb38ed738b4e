package commands

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/setup"
	"github.com/gputally/gputally/internal/cli"
)

func migrateCommand() cli.Command {
	var cluster string
	var dryRun bool
	return cli.Command{
		Use:   "migrate",
		Short: "Bring ClickHouse's tables up to this program's schema",
		Long: `On one server, ingest and standalone do the same when they start. On a cluster only this command does it: every
table becomes NAME_local, replicated in its shard, and NAME, Distributed over the shards. The servers
need the cluster in remote_servers, the macros {shard} and {replica}, and a Keeper. Run it once, and
again before the services of a newer gputally start.`,
		Examples: []string{
			"gputally migrate --config gputally.yaml", "the configured server",
			"gputally migrate --config gputally.yaml --cluster prod", "all servers of the cluster prod",
			"gputally migrate --cluster prod --dry-run", "the statements, for a review; needs no server",
		},
		Flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&cluster, "cluster", "",
				"`NAME` of the cluster in ClickHouse's remote_servers, or a macro such as {cluster}")
			flags.BoolVar(&dryRun, "dry-run", false, "print all statements from the first on, and execute none")
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			if dryRun {
				return setup.PrintMigrations(s, cluster)
			}
			return setup.Migrate(ctx, s, cluster)
		},
	}
}
