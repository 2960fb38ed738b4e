package commands

import (
	"context"

	"github.com/gputally/gputally/cmd/gputally/proof"
	"github.com/gputally/gputally/internal/cli"
)

func statusCommand() cli.Command {
	return cli.Command{
		Use:   "status",
		Short: "How far each stage is: spool, lag, watermark, dirty hours",
		Long: `Shows who serves the ledger, and where data wait: batches in each collector's spool, messages that ingest
has yet to read, hours that the ledger has yet to recompute, and the watermark up to which it counts.`,
		Examples: []string{
			"gputally status --data DIR", "is it keeping up?",
			"gputally status --data DIR --output json", "for a monitor",
		},
		Takes: cli.Data | cli.Output,
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			st, err := proof.ReadStatus(ctx, s)
			if err != nil {
				return err
			}
			return proof.PrintStatus(s, st)
		},
	}
}
