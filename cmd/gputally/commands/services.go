package commands

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/cli"
)

func separateCommands(s *cli.Session) []*cobra.Command {
	var commands []*cobra.Command
	for _, service := range []app.Separate{
		{
			Name: "collector", Short: "Read GPUs and produce to Kafka",
			Long: "Reads the configured source (dcgm, nvml, or dcgm-exporters) once per slot, asks for the GPUs' owners\n" +
				"every second (kubelet, Slurm, a file), spools what it saw and produces it to Kafka. While Kafka is\naway it collects on, into the spool.",
			Kafka: true, Spools: true, Start: app.StartCollector,
		},
		{
			Name: "ingest", Short: "Bring batches from Kafka into ClickHouse and keep the ledger",
			Long: "Takes part in the consumer group, writes raw rows and the journal, and recomputes dirty hours.\n" +
				"It brings the tables of one ClickHouse server up to date when it starts; those of a cluster are\n" +
				"`gputally migrate --cluster NAME`'s, and while they lack a migration it refuses to start.",
			Kafka: true, Clickhouse: true, Start: app.StartSeparateIngest,
		},
		{
			Name: "analyzer", Short: "Find idle allocations and off-hours spikes",
			Long:       "Looks the ledger through again and again, and publishes episodes and metrics.",
			Clickhouse: true, Start: func(ctx context.Context, p *app.Pipeline) error { return p.StartAnalyzer(ctx) },
		},
		{
			Name: "billing", Short: "Keep the register of invoices; serve finance and tenants",
			Long: "Drafts the current months again and again, projects what was decided into ClickHouse, and serves the finance\n" +
				"API (/api/v1, /openapi.json, /docs) and the statement pages (/statements/).",
			Kafka: true, Clickhouse: true, Decides: true, Finance: true, Start: func(_ context.Context, p *app.Pipeline) error { return p.StartBilling() },
		},
	} {
		commands = append(commands, separateCommand(s, service))
	}
	return commands
}

func separateCommand(s *cli.Session, service app.Separate) *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   service.Name,
		Short: service.Short,
		Long: service.Long + "\n\nIt runs against the Kafka and ClickHouse of the configuration until it is stopped, and drains then.\n" +
			"/metrics, /-/ready and /-/healthy are on http.listen.",
		Example: cli.Examples(
			"gputally "+service.Name+" --config gputally.yaml", "run it",
			"gputally "+service.Name+" --config gputally.yaml --listen 127.0.0.1:9416", "on another port",
		),
		Args:        cobra.NoArgs,
		Annotations: map[string]string{cli.ServiceAnnotation: ""},
		RunE: s.Run(func(ctx context.Context, _ []string) error {
			cfg, err := app.ConfigOf(s, "")
			if err != nil {
				return err
			}
			cfg.HTTP.Listen = cmp.Or(listen, cfg.HTTP.Listen)
			if err := cfg.HTTP.Validate(); err != nil {
				return cli.UsageError(err)
			}
			if cfg.HTTP.Listen == "unix" && cfg.HTTP.Socket == "" {
				return cli.UsageError(errors.New("http.socket: is empty: name the path of a Unix socket, since http.listen is unix"))
			}
			return app.RunSeparate(ctx, s, cfg, service)
		}),
	}
	cmd.Flags().StringVar(&listen, "listen", "", "loopback `HOST:PORT` of the HTTP endpoint, or unix: its socket alone (default: the configuration's)")
	return cmd
}
