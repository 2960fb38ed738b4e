package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/httpd"
	"github.com/gputally/gputally/internal/lifecycle"
)

// separate is one of the services that run each on their own, against the
// configured Kafka and ClickHouse.
type separate struct {
	name, short, long string
	kafka, clickhouse bool // what it works with
	finance           bool // serves finance API and statement pages
	spools            bool // starts while Kafka is away
	decides           bool // what it needs of Kafka is the decisions
	start             func(ctx context.Context, p *pipeline) error
}

func (s *session) separateCommands() []*cobra.Command {
	var commands []*cobra.Command
	for _, service := range []separate{
		{
			name: "collector", short: "Read GPUs and produce to Kafka",
			long: "Reads the configured source (dcgm, nvml, or dcgm-exporters) once per slot, asks for the GPUs' owners\n" +
				"every second (kubelet, Slurm, a file), spools what it saw and produces it to Kafka. While Kafka is\naway it collects on, into the spool.",
			kafka: true, spools: true, start: startCollector,
		},
		{
			name: "ingest", short: "Bring batches from Kafka into ClickHouse and keep the ledger",
			long: "Takes part in the consumer group, writes raw rows and the journal, and recomputes dirty hours.\n" +
				"It brings the tables of one ClickHouse server up to date when it starts; those of a cluster are\n" +
				"`gputally migrate --cluster NAME`'s, and while they lack a migration it refuses to start.",
			kafka: true, clickhouse: true, start: startSeparateIngest,
		},
		{
			name: "analyzer", short: "Find idle allocations and off-hours spikes",
			long:       "Looks the ledger through again and again, and publishes episodes and metrics.",
			clickhouse: true, start: func(ctx context.Context, p *pipeline) error { return p.startAnalyzer(ctx) },
		},
		{
			name: "billing", short: "Keep the register of invoices; serve finance and tenants",
			long: "Drafts the current months again and again, projects what was decided into ClickHouse, and serves the finance\n" +
				"API (/api/v1, /openapi.json, /docs) and the statement pages (/statements/).",
			kafka: true, clickhouse: true, decides: true, finance: true, start: func(_ context.Context, p *pipeline) error { return p.startBilling() },
		},
	} {
		commands = append(commands, s.separateCommand(service))
	}
	return commands
}

func (s *session) separateCommand(service separate) *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   service.name,
		Short: service.short,
		Long: service.long + "\n\nIt runs against the Kafka and ClickHouse of the configuration until it is stopped, and drains then.\n" +
			"/metrics, /-/ready and /-/healthy are on http.listen.",
		Example: examples(
			"gputally "+service.name+" --config gputally.yaml", "run it",
			"gputally "+service.name+" --config gputally.yaml --listen 127.0.0.1:9416", "on another port",
		),
		Args:        cobra.NoArgs,
		Annotations: map[string]string{serviceAnnotation: ""},
		RunE: s.run(func(ctx context.Context, _ []string) error {
			cfg, err := s.config("")
			if err != nil {
				return err
			}
			cfg.HTTP.Listen = cmp.Or(listen, cfg.HTTP.Listen)
			if err := cfg.HTTP.Validate(); err != nil {
				return usageError{err}
			}
			if cfg.HTTP.Listen == "unix" && cfg.HTTP.Socket == "" {
				return usageError{errors.New("http.socket: is empty: name the path of a Unix socket, since http.listen is unix")}
			}
			return s.runSeparate(ctx, cfg, service)
		}),
	}
	cmd.Flags().StringVar(&listen, "listen", "", "loopback `HOST:PORT` of the HTTP endpoint, or unix: its socket alone (default: the configuration's)")
	return cmd
}

// runSeparate binds HTTP, connects, starts the service and waits for its end.
func (s *session) runSeparate(ctx context.Context, cfg Config, service separate) (err error) {
	if service.kafka && len(cfg.Kafka.Brokers) == 0 {
		return usageError{errors.New("kafka.brokers: is empty: name the brokers in the configuration, or run gputally standalone, which has its own")}
	}
	a := &access{cfg: cfg}
	if service.clickhouse {
		if a, err = s.openRemote(ctx, cfg); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, a.Close()) }()
	}
	p := s.barePipeline(ctx, a)
	server, err := p.listen(ctx)
	if err != nil {
		return err
	}
	if err := p.startSeparate(ctx, service, server); err != nil {
		return errors.Join(err, p.group.Stop(), server.Close())
	}
	return p.group.Wait(ctx)
}

// barePipeline is connected to nothing yet.
func (s *session) barePipeline(ctx context.Context, a *access) *pipeline {
	p := &pipeline{
		s: s, cfg: a.cfg, access: a, reg: prometheus.NewRegistry(),
		group: lifecycle.New(ctx, lifecycle.Options{Clock: s.clock, Log: s.log, StopTimeout: stopTimeout}),
	}
	p.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return p
}

func (p *pipeline) startSeparate(ctx context.Context, service separate, server *httpd.Server) error {
	if service.kafka {
		connect := p.connect
		if service.spools {
			connect = func(context.Context) error { return p.newClient() }
		}
		if service.decides {
			connect = p.connectRegister
		}
		if err := connect(ctx); err != nil {
			return err
		}
	}
	if err := service.start(ctx, p); err != nil {
		return err
	}
	if service.clickhouse {
		if service.finance {
			p.s.log.Info("statement pages", "url", statementsURL(server))
		}
		return p.serve(server, service.finance)
	}
	if p.metering != nil {
		server.AddReady("metering", p.metering.ready)
	}
	p.group.Go("http", server.Run)
	return nil
}

// collectorGCPercent trades a little time for memory: a node has better use for it.
const collectorGCPercent = 50

func startCollector(ctx context.Context, p *pipeline) error {
	dir := filepath.Clean(p.cfg.Collector.SpoolDir)
	if p.cfg.Collector.SpoolDir == "" {
		return usageError{errors.New("collector.spool_dir: is empty: name a folder for the spool")}
	}
	if p.cfg.source() == "" {
		return usageError{errors.New("collector.source: is empty: name dcgm or nvml, or exporter with exporter.targets")}
	}
	debug.SetGCPercent(collectorGCPercent)
	return p.startCollecting(ctx, collecting{spool: dir, state: func(name string) string { return filepath.Join(dir, name) }})
}

func startSeparateIngest(ctx context.Context, p *pipeline) error {
	if _, err := p.access.db.Migrate(ctx); err != nil {
		return fmt.Errorf("prepare ledger: %w", err)
	}
	var err error
	p.ledger, err = ledger.New(p.cfg.Ledger, ledger.Deps{Store: p.access.db, Clock: p.s.clock, Log: p.s.log, Registry: p.reg})
	if err != nil {
		return err
	}
	return p.startIngest()
}
