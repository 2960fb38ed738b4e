package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/cmd/gputally/proof"
	"github.com/gputally/gputally/internal/cli"
)

func statusCommand(s *cli.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "How far each stage is: spool, lag, watermark, dirty hours",
		Long: "Shows who serves the ledger, and where data wait: batches in each collector's spool, messages that ingest\n" +
			"has yet to read, hours that the ledger has yet to recompute, and the watermark up to which it counts.",
		Example: cli.Examples(
			"gputally status --data DIR", "is it keeping up?",
			"gputally status --data DIR --output json", "for a monitor",
		),
		Args: cobra.NoArgs,
	}
	data, o := cli.DataFlag(cmd), cli.OutputFlag(cmd)
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		st, err := proof.ReadStatus(ctx, s, *data)
		if err != nil {
			return err
		}
		return proof.PrintStatus(s, *o, st)
	})
	return cmd
}
