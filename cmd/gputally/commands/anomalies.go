package commands

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/internal/cli"
)

func anomaliesCommand(s *cli.Session) *cobra.Command {
	var kind, tenant string
	cmd := &cobra.Command{
		Use:   "anomalies",
		Short: "Idle allocations and off-hours spikes, with what they wasted",
		Long: "Looks the ledger through for episodes that overlap the range and prints them\n" +
			"in time order. Kinds: " + kinds() + ". Costs are list prices of the price book.",
		Example: cli.Examples(
			"gputally anomalies --data DIR", "all there are",
			"gputally anomalies --data DIR --kind "+string(episode.IdleAllocation)+" --tenant ml-train --from 2026-10-01 --to 2026-11-01", "what one tenant left idle",
			"gputally anomalies --data DIR --output csv", "for scripts",
		),
		Args: cobra.NoArgs,
	}
	data, o, span := cli.DataFlag(cmd), cli.OutputFlag(cmd), cli.RangeFlags(cmd)
	cmd.Flags().StringVar(&kind, "kind", "", "only this `KIND`: "+kinds())
	cmd.Flags().StringVar(&tenant, "tenant", "", "only the `TENANT`'s")
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		if kind != "" && !slices.Contains(episode.Kinds(), episode.Kind(kind)) {
			return cli.UsageError(fmt.Errorf("kind %q: want %s", kind, kinds()))
		}
		return app.WithStore(ctx, s, *data, func(a *app.Access) error {
			found, err := ask.FindAnomalies(ctx, a, span)
			if err != nil {
				return err
			}
			found = slices.DeleteFunc(found, func(e episode.Episode) bool {
				return kind != "" && e.Kind != episode.Kind(kind) || tenant != "" && e.Tenant != tenant
			})
			if err := ask.PrintAnomalies(s, *o, found); err != nil || len(found) > 0 {
				return err
			}
			return app.SayNothing(ctx, s, a, *o, span.String())
		})
	})
	return cmd
}

func kinds() string {
	var names []string
	for _, k := range episode.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}
