package commands

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/cli"
)

func standaloneCommand() cli.Command {
	var f app.Live
	return cli.Command{
		Use:   "standalone",
		Short: "Run every service on one data directory",
		Long: `Runs collector, broker, ingest, ledger, analyzer, billing and the HTTP endpoint on one data directory,
with ClickHouse in a helper process, until it is stopped (Ctrl-C). All other commands with the same
--data work beside it. It can be killed at any instant and started again.`,
		Examples: []string{
			"gputally standalone --data DIR --scrape http://127.0.0.1:9400/metrics", "meter a running dcgm-exporter",
			"gputally standalone --data DIR --scrape http://n1:9400/metrics --scrape http://n2:9400/metrics --slot 30s",
			"two nodes, every 30 s",
		},
		Takes:   cli.NewData | cli.Listen,
		Service: true,
		Flags: func(flags *pflag.FlagSet) {
			flags.StringArrayVar(&f.Scrape, "scrape", nil,
				"dcgm-exporter `URL` to scrape once per slot; may stand several times")
			flags.StringVar(&f.Source, "source", "",
				"`NAME` of what is read: dcgm or nvml for this machine's own GPUs (default: the configuration's)")
			flags.DurationVar(&f.Slot, "slot", 0,
				"length of a slot, such as 10s; divides the hour (default: the configuration's)")
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			return app.Standalone(ctx, s, f)
		},
	}
}
