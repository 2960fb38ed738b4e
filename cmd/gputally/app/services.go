package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"

	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/httpd"
)

// Service is one of the services that run each on their own, against the configured
// Kafka and ClickHouse.
type Service struct {
	kafka, clickhouse bool // what it works with
	finance           bool // serves finance API and statement pages
	spools            bool // starts while Kafka is away
	decides           bool // what it needs of Kafka is the decisions
	start             func(ctx context.Context, p *Pipeline) error
}

// The services.
var (
	Collector = Service{kafka: true, spools: true, start: startCollector}
	Ingest    = Service{kafka: true, clickhouse: true, start: startSeparateIngest}
	Analyzer  = Service{
		clickhouse: true,
		start:      func(ctx context.Context, p *Pipeline) error { return p.startAnalyzer(ctx) },
	}
	Billing = Service{
		kafka: true, clickhouse: true, decides: true, finance: true,
		start: func(_ context.Context, p *Pipeline) error { return p.startBilling() },
	}
)

// RunService binds HTTP, connects, starts the service and waits for its end.
func RunService(ctx context.Context, s *cli.Session, service Service) (err error) {
	cfg, err := ConfigOf(s)
	if err != nil {
		return err
	}
	cfg.HTTP.Listen = cmp.Or(s.Listen, cfg.HTTP.Listen)
	if err := cfg.HTTP.Validate(); err != nil {
		return cli.UsageError(err)
	}
	if cfg.HTTP.Listen == "unix" && cfg.HTTP.Socket == "" {
		return cli.UsageError(errors.New("http.socket: is empty: name the path of a Unix socket, since http.listen is unix"))
	}
	if service.kafka && len(cfg.Kafka.Brokers) == 0 {
		return cli.UsageError(
			errors.New("kafka.brokers: is empty: name the brokers in the configuration, or run gputally standalone, which " +
				"has its own"))
	}
	a := &Access{Config: cfg}
	if service.clickhouse {
		if a, err = openRemote(ctx, s, cfg); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	p := NewPipeline(ctx, s, a)
	server, err := p.listen(ctx)
	if err != nil {
		return err
	}
	if err := p.startService(ctx, service, server); err != nil {
		return errors.Join(err, p.Group.Stop(), server.Close())
	}
	return p.Group.Wait(ctx)
}

func (p *Pipeline) startService(ctx context.Context, service Service, server *httpd.Server) error {
	if service.kafka {
		connect := p.Connect
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
			p.Session.Log.Info("statement pages", "url", statementsURL(server))
		}
		return p.serve(server, service.finance)
	}
	if p.metering != nil {
		server.AddReady("metering", p.metering.ready)
	}
	p.Group.Go("http", server.Run)
	return nil
}

// collectorGCPercent trades a little time for memory: a node has better use for it.
const collectorGCPercent = 50

func startCollector(ctx context.Context, p *Pipeline) error {
	dir := filepath.Clean(p.Config.Collector.SpoolDir)
	if p.Config.Collector.SpoolDir == "" {
		return cli.UsageError(errors.New("collector.spool_dir: is empty: set it to a directory for the spool"))
	}
	if p.Config.SourceName() == "" {
		return cli.UsageError(errors.New("collector.source: is empty: name dcgm or nvml, or exporter with exporter.targets"))
	}
	debug.SetGCPercent(collectorGCPercent)
	return p.startCollecting(ctx,
		collecting{spool: dir, state: func(name string) string { return filepath.Join(dir, name) }})
}

func startSeparateIngest(ctx context.Context, p *Pipeline) error {
	if _, err := p.Access.DB.Migrate(ctx); err != nil {
		return fmt.Errorf("prepare ledger: %w", err)
	}
	if err := p.newLedger(); err != nil {
		return err
	}
	return p.startIngest()
}
