package commands

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/load"
	"github.com/gputally/gputally/internal/cli"
)

func replayCommand() cli.Command {
	var o load.ReplayRequest
	return cli.Command{
		Use:   "replay",
		Short: "Ingest again what is still in the topic",
		Long: `Reads the samples topic again and takes every message through decode, settle, insert and journal once
more: raw rows that ClickHouse lost are inserted again, rows that no batch has are deleted, and the rules of a
newer version replace the older ones. Only what ingest has committed is replayed; the group's offsets stay, so
that it is safe beside a running ingester. Repeating it changes nothing more. At the end the ledger recomputes the
hours that are dirty. --from-time and --to-time are the broker's append times.`,
		Examples: []string{
			"gputally replay --data DIR --from-time 2026-10-01", "all that came in since then",
			"gputally replay --data DIR --from-offset 2/1500", "one partition, from an offset on",
		},
		Takes: cli.Data,
		Flags: func(flags *pflag.FlagSet) {
			flags.Var(&o.Place, "from-offset", "the `PARTITION/OFFSET` to begin at; other partitions are left alone")
			flags.Var(&o.From, "from-time", "the `TIME` of the append to begin at, in every partition")
			flags.Var(&o.To, "to-time", "the `TIME` of the append to end before (default: what ingest has committed)")
		},
		OneOf:   []string{"from-offset", "from-time"},
		Apart:   []string{"from-offset", "from-time"},
		Resumes: true,
		Run:     func(ctx context.Context, s *cli.Session, _ []string) error { return load.Replay(ctx, s, &o) },
	}
}
