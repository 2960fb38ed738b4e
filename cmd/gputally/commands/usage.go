package commands

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/usage"
)

func usageCommand(s *cli.Session) *cobra.Command {
	var by, tenant string
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Who used which GPU, by tenant, project, node, hour …",
		Long: "Prints the ledger, grouped by what --by names: " + strings.Join(usage.Columns(), ", ") + ".\n" +
			"Platform time (free, stranded, unhealthy, unobserved) has an empty tenant. CSV and JSON give\n" +
			"each bucket in slice-milliseconds, exactly; the table gives its share of the row.",
		Example: cli.Examples(
			"gputally usage --data DIR --by tenant", "who used what, in all",
			"gputally usage --data DIR --by tenant,day --from 2026-10-01 --to 2026-11-01 --output csv", "a month by day, for a spreadsheet",
			"gputally usage --data DIR --by gpu,hour --tenant ml-train --output json", "where one tenant ran",
		),
		Args: cobra.NoArgs,
	}
	data, o, span := cli.DataFlag(cmd), cli.OutputFlag(cmd), cli.RangeFlags(cmd)
	cmd.Flags().StringVar(&by, "by", "tenant", "comma-separated `COLUMNS` to group by")
	cmd.Flags().StringVar(&tenant, "tenant", "", "only the `TENANT`'s usage")
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		columns, err := usage.ParseBy(by)
		if err != nil {
			return cli.UsageError(err)
		}
		return app.WithStore(ctx, s, *data, func(a *app.Access) error {
			return ask.PrintUsage(ctx, s, a, *o, span, usage.Query{By: columns, Tenant: tenant})
		})
	})
	return cmd
}
