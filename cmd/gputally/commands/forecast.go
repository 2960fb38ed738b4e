package commands

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/internal/cli"
)

func forecastCommand() cli.Command {
	var month cli.Month
	var tenant string
	return cli.Command{
		Use:   "forecast",
		Short: "GPU-hours and spend of each tenant by the end of the month, with intervals",
		Long: "Prints for each tenant what it used in the month so far, what it is expected to have used by\n" +
			"the end of the month, with 80 % and 95 % intervals, and how wrong such forecasts were: their\n" +
			"error one and seven days ahead as a part of that of the same day of the last week, and the\n" +
			"share of days that were inside the 80 % interval. Spend is at list price. A forecast needs\n" +
			"four weeks of history. Budgets come from analyzer.forecast.budgets of the configuration.",
		Examples: []string{
			"gputally forecast --data DIR", "the month of the ledger's newest hours",
			"gputally forecast --data DIR --tenant ml-train", "one tenant",
			"gputally forecast --data DIR --month 2026-10 --output csv", "for scripts",
		},
		Takes: cli.Data | cli.Output,
		Flags: func(flags *pflag.FlagSet) {
			flags.Var(&month, "month", "the `MONTH`, such as 2026-10 (default: that of the ledger's newest hours)")
			flags.StringVar(&tenant, "tenant", "", "only the `TENANT`'s")
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			return ask.Forecast(ctx, s, month, tenant)
		},
	}
}
