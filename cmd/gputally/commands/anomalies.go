package commands

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/internal/cli"
)

func anomaliesCommand() cli.Command {
	var kind, tenant string
	return cli.Command{
		Use:   "anomalies",
		Short: "Idle allocations and off-hours spikes, with what they wasted",
		Long: "Prints the anomalies (idle allocations, off-hours spikes) that overlap the range,\n" +
			"in time order. Costs are list prices of the price book.",
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
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			return ask.Anomalies(ctx, s, kind, tenant)
		},
	}
}
