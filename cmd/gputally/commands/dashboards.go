package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/cmd/gputally/setup"
	"github.com/gputally/gputally/dashboards/grafana"
	"github.com/gputally/gputally/dashboards/rules"
	"github.com/gputally/gputally/internal/cli"
)

func dashboardsCommand(s *cli.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "dashboards",
		Short:   "Grafana dashboard and Prometheus alert rules",
		Args:    cobra.NoArgs,
		Example: cli.Examples("gputally dashboards write ./observability", "the files, to import"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:     "write FOLDER",
		Short:   "Write " + grafana.FileName + " and " + rules.FileName + " into a folder",
		Example: cli.Examples("gputally dashboards write ./observability", "the files, to import"),
		Args:    cli.ArgumentsOfUse,
		RunE:    s.Run(func(_ context.Context, args []string) error { return setup.WriteDashboards(s, args[0]) }),
	})
	return cmd
}
