package commands

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/internal/cli"
)

func anomaliesCommand() cli.Command {
	var kind, tenant string
	var all bool
	return cli.Command{
		Use:   "anomalies",
		Short: "Idle allocations and off-hours spikes, with what they wasted",
		Long: "Prints the findings (idle allocations, patterns of them, off-hours spikes) that overlap the\n" +
			"range, in time order. Costs are the price book's, before the terms of a month. A time in\n" +
			"column alerted says when the alert budget let a finding through.",
		Examples: []string{
			"gputally anomalies --data DIR", "all there are",
			"gputally anomalies --data DIR --kind " + "idle_allocation" +
				" --tenant ml-train --from 2026-10-01 --to 2026-11-01", "what one tenant left idle",
			"gputally anomalies --data DIR --output csv", "for scripts",
		},
		Takes: cli.Data | cli.Output | cli.Range,
		Flags: func(flags *pflag.FlagSet) {
			cli.Choice(flags, &kind, "kind", "", "only episodes of this `KIND`", ask.AnomalyKinds()...)
			flags.StringVar(&tenant, "tenant", "", "only the `TENANT`'s")
			flags.BoolVar(&all, "all", false, "in a table, also the allocations that a pattern sums up")
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			return ask.Anomalies(ctx, s, kind, tenant, all)
		},
	}
}
