package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/cli"
)

func standaloneCommand(s *cli.Session) *cobra.Command {
	var f app.StandaloneFlags
	cmd := &cobra.Command{
		Use:   "standalone",
		Short: "Run every service on one data directory",
		Long: "Runs collector, broker, ingest, ledger, analyzer, billing and the HTTP endpoint on one data directory,\n" +
			"with ClickHouse in a helper process, until it is stopped (Ctrl-C). All other commands with the same\n" +
			"--data work beside it. It can be killed at any instant and started again.",
		Example: cli.Examples(
			"gputally standalone --data DIR --scrape http://127.0.0.1:9400/metrics", "meter a running dcgm-exporter",
			"gputally standalone --data DIR --scrape http://n1:9400/metrics --scrape http://n2:9400/metrics --slot 30s", "two nodes, every 30 s",
		),
		Args:        cobra.NoArgs,
		Annotations: map[string]string{cli.ServiceAnnotation: ""},
	}
	cmd.Flags().StringVar(&f.Data, "data", "", "data `DIR`ectory, made where it is missing")
	cmd.Flags().StringArrayVar(&f.Scrape, "scrape", nil, "dcgm-exporter `URL` to scrape once per slot; may stand several times")
	cmd.Flags().StringVar(&f.Source, "source", "", "`NAME` of what is read: dcgm or nvml for this machine's own GPUs (default: the configuration's)")
	cmd.Flags().DurationVar(&f.Slot, "slot", 0, "length of a slot, such as 10s; divides the hour (default: the configuration's)")
	cmd.Flags().StringVar(&f.Listen, "listen", "", "loopback `HOST:PORT` of the HTTP endpoint, or unix: its socket alone (default: the configuration's)")
	_ = cmd.MarkFlagRequired("data") // fails only for a flag that isn't there
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error { return app.Standalone(ctx, s, f) })
	return cmd
}
