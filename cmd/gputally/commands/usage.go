package commands

import (
	"context"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/usage"
)

func usageCommand() cli.Command {
	var by, tenant string
	return cli.Command{
		Use:   "usage",
		Short: "Who used which GPU, by tenant, project, node, hour …",
		Long: "Prints the ledger, grouped by what --by names: " + strings.Join(usage.Columns(), ", ") + ".\n" +
			"Platform time (free, stranded, unhealthy, unobserved) has an empty tenant. CSV and JSON give\n" +
			"each bucket in slice-milliseconds, exactly; the table gives its share of the row.",
		Examples: []string{
			"gputally usage --data DIR --by tenant", "who used what, in all",
			"gputally usage --data DIR --by tenant,day --from 2026-10-01 --to 2026-11-01 --output csv",
			"a month by day, for a spreadsheet",
			"gputally usage --data DIR --by gpu,hour --tenant ml-train --output json", "where one tenant ran",
		},
		Takes: cli.Data | cli.Output | cli.Range,
		Flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&by, "by", "tenant", "comma-separated `COLUMNS` to group by")
			flags.StringVar(&tenant, "tenant", "", "only the `TENANT`'s usage")
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error { return ask.Usage(ctx, s, by, tenant) },
	}
}
