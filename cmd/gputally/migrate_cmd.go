package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/internal/store"
)

func (s *session) migrateCommand() *cobra.Command {
	var cluster string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring ClickHouse's tables up to this program's schema",
		Long: "Services do the same when they start, on one server. On a cluster it is this command's work: every\n" +
			"table becomes NAME_local, replicated in its shard, and NAME, Distributed over the shards. The servers\n" +
			"need the cluster in remote_servers, the macros {shard} and {replica}, and a Keeper. Run it once, and\n" +
			"again before the services of a newer gputally start.",
		Example: examples(
			"gputally migrate --config gputally.yaml", "the configured server",
			"gputally migrate --config gputally.yaml --cluster prod", "all servers of the cluster prod",
			"gputally migrate --cluster prod --dry-run", "the statements, for a review; needs no server",
		),
		Args: cobra.NoArgs,
		RunE: s.run(func(ctx context.Context, _ []string) error {
			if dryRun {
				return s.printMigrations(cluster)
			}
			return s.migrate(ctx, cluster)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&cluster, "cluster", "", "`NAME` of the cluster in ClickHouse's remote_servers, or a macro such as {cluster}")
	flags.BoolVar(&dryRun, "dry-run", false, "print all statements from the first on, and execute none")
	return cmd
}

func (s *session) migrate(ctx context.Context, cluster string) (err error) {
	a, err := s.openStore(ctx, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	migrate := a.db.Migrate
	if cluster != "" {
		migrate = func(ctx context.Context) (int, error) { return a.db.MigrateCluster(ctx, cluster) }
	}
	applied, err := migrate(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.stdout, "%s: %d migrations applied\n", a.db.Database(), applied)
	return err
}

func (s *session) printMigrations(cluster string) error {
	cfg, err := s.config("")
	if err != nil {
		return err
	}
	statements, err := store.Statements(cfg.ClickHouse.Database, cluster)
	if err != nil {
		return usageError{err}
	}
	for i, statement := range statements {
		if _, err := fmt.Fprintf(s.stdout, "%s;\n\n", statement); err != nil {
			return fmt.Errorf("print statements: %w", err)
		}
		if i > 0 {
			continue
		}
		if _, err := fmt.Fprintf(s.stdout, "USE %s;\n\n", cfg.ClickHouse.Database); err != nil {
			return fmt.Errorf("print statements: %w", err)
		}
	}
	return nil
}
