package commands

import (
	"context"

	"github.com/gputally/gputally/cmd/gputally/setup"
	"github.com/gputally/gputally/internal/cli"
)

func dashboardsCommand() cli.Command {
	return cli.Command{
		Use:      "dashboards",
		Short:    "Grafana dashboard and Prometheus alert rules",
		Examples: []string{"gputally dashboards write ./observability", "the files, to import"},
		Commands: []cli.Command{{
			Use:      "write FOLDER",
			Short:    "Write the dashboard and the alert rules into a directory, and print their paths",
			Examples: []string{"gputally dashboards write ./observability", "the files, to import"},
			Run: func(_ context.Context, s *cli.Session, args []string) error {
				return setup.WriteDashboards(s, args[0])
			},
		}},
	}
}
