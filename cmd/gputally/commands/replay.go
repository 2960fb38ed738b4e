package commands

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/cmd/gputally/load"
	"github.com/gputally/gputally/internal/cli"
)

func replayCommand(s *cli.Session) *cobra.Command {
	o := load.ReplayRequest{}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Ingest again what is still in the topic",
		Long: "Reads the samples topic again and takes every message through decode, settle, insert and journal once\n" +
			"more: raw rows that ClickHouse lost come back, rows that batches don't have go, and a newer version's rules\n" +
			"replace the older ones'. Only what ingest has committed is replayed; the group's offsets stay, so that it is\n" +
			"safe beside a running ingester. Doing it twice, or stopping and repeating it, changes nothing more. At the\n" +
			"end the ledger recomputes the hours that are dirty. Times are the broker's, of the append.",
		Example: cli.Examples(
			"gputally replay --data DIR --from-time 2026-10-01", "all that came in since then",
			"gputally replay --data DIR --from-offset 2/1500", "one partition, from an offset on",
		),
		Args: cobra.NoArgs,
	}
	data := cli.DataFlag(cmd)
	flags := cmd.Flags()
	flags.Var(&o.Place, "from-offset", "the `PARTITION/OFFSET` to begin at; other partitions are left alone")
	flags.Var(&o.From, "from-time", "the `TIME` of the append to begin at, in every partition")
	flags.Var(&o.To, "to-time", "the `TIME` of the append to end before (default: what ingest has committed)")
	cmd.MarkFlagsOneRequired("from-offset", "from-time")
	cmd.MarkFlagsMutuallyExclusive("from-offset", "from-time")
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		if !o.To.At.IsZero() && !o.From.At.IsZero() && !o.From.At.Before(o.To.At) {
			return cli.UsageError(fmt.Errorf("--from-time %s is not before --to-time %s", &o.From, &o.To))
		}
		s.Resumes = true
		return load.Replay(ctx, s, *data, &o)
	})
	return cmd
}
