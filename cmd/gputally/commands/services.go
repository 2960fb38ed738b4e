package commands

import (
	"context"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/cli"
)

// serviceCommands are the services that run each on its own.
func serviceCommands() []cli.Command {
	return []cli.Command{
		serviceCommand("collector", "Read GPUs and produce to Kafka",
			"Reads the configured source (dcgm, nvml, or dcgm-exporters) once per slot, asks for the GPUs' owners\n"+
				"every second (kubelet, Slurm, a file), spools what it saw and produces it to Kafka. While Kafka is\n"+
				"away it continues to collect into the spool.", app.Collector),
		serviceCommand("ingest", "Bring batches from Kafka into ClickHouse and keep the ledger",
			"Takes part in the consumer group, writes raw rows and the journal, and recomputes dirty hours.\n"+
				"It brings the tables of one ClickHouse server up to date when it starts; for a cluster\n"+
				"use `gputally migrate --cluster NAME`: while its tables lack a migration, ingest refuses to start.", app.Ingest),
		serviceCommand("analyzer", "Find idle allocations, off-hours spikes and errors of devices",
			"Searches the ledger at each analyzer.interval, and publishes anomalies and metrics.", app.Analyzer),
		serviceCommand("billing", "Rate invoices; serve the finance API and statement pages",
			"Rates the current months' drafts repeatedly, copies decisions into ClickHouse, and serves the finance\n"+
				"API (/api/v1, /openapi.json, /docs) and the statement pages (/statements/).", app.Billing),
	}
}

func serviceCommand(name, short, long string, service app.Service) cli.Command {
	return cli.Command{
		Use:   name,
		Short: short,
		Long: long + "\n\nIt uses the Kafka and ClickHouse of the configuration. When it is stopped, it finishes the " +
			"work in progress.\n" +
			"/metrics, /-/ready and /-/healthy are on http.listen.",
		Examples: []string{
			"gputally " + name + " --config gputally.yaml", "run it",
			"gputally " + name + " --config gputally.yaml --listen 127.0.0.1:9416", "on another port",
		},
		Takes:   cli.Listen,
		Service: true,
		Run:     func(ctx context.Context, s *cli.Session, _ []string) error { return app.RunService(ctx, s, service) },
	}
}
