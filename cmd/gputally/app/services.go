package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/httpd"
	"github.com/gputally/gputally/internal/lifecycle"
)

// Separate is one of the services that run each on their own, against the
// configured Kafka and ClickHouse.
type Separate struct {
	Name, Short, Long string
	Kafka, Clickhouse bool // what it works with
	Finance           bool // serves finance API and statement pages
	Spools            bool // starts while Kafka is away
	Decides           bool // what it needs of Kafka is the decisions
	Start             func(ctx context.Context, p *Pipeline) error
}

// RunSeparate binds HTTP, connects, starts the service and waits for its end.
func RunSeparate(ctx context.Context, s *cli.Session, cfg settings.Config, service Separate) (err error) {
	if service.Kafka && len(cfg.Kafka.Brokers) == 0 {
		return cli.UsageError(errors.New("kafka.brokers: is empty: name the brokers in the configuration, or run gputally standalone, which has its own"))
	}
	a := &Access{Config: cfg}
	if service.Clickhouse {
		if a, err = openRemote(ctx, s, cfg); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, a.Close()) }()
	}
	p := BarePipeline(ctx, s, a)
	server, err := p.listen(ctx)
	if err != nil {
		return err
	}
	if err := p.startSeparate(ctx, service, server); err != nil {
		return errors.Join(err, p.Group.Stop(), server.Close())
	}
	return p.Group.Wait(ctx)
}

// BarePipeline is connected to nothing yet.
func BarePipeline(ctx context.Context, s *cli.Session, a *Access) *Pipeline {
	p := &Pipeline{
		Session: s, Config: a.Config, Access: a, Registry: prometheus.NewRegistry(),
		Group: lifecycle.New(ctx, lifecycle.Options{Clock: s.Clock, Log: s.Log, StopTimeout: StopTimeout}),
	}
	p.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return p
}

func (p *Pipeline) startSeparate(ctx context.Context, service Separate, server *httpd.Server) error {
	if service.Kafka {
		connect := p.Connect
		if service.Spools {
			connect = func(context.Context) error { return p.newClient() }
		}
		if service.Decides {
			connect = p.connectRegister
		}
		if err := connect(ctx); err != nil {
			return err
		}
	}
	if err := service.Start(ctx, p); err != nil {
		return err
	}
	if service.Clickhouse {
		if service.Finance {
			p.Session.Log.Info("statement pages", "url", statementsURL(server))
		}
		return p.serve(server, service.Finance)
	}
	if p.metering != nil {
		server.AddReady("metering", p.metering.ready)
	}
	p.Group.Go("http", server.Run)
	return nil
}

// collectorGCPercent trades a little time for memory: a node has better use for it.
const collectorGCPercent = 50

func StartCollector(ctx context.Context, p *Pipeline) error {
	dir := filepath.Clean(p.Config.Collector.SpoolDir)
	if p.Config.Collector.SpoolDir == "" {
		return cli.UsageError(errors.New("collector.spool_dir: is empty: name a folder for the spool"))
	}
	if p.Config.SourceName() == "" {
		return cli.UsageError(errors.New("collector.source: is empty: name dcgm or nvml, or exporter with exporter.targets"))
	}
	debug.SetGCPercent(collectorGCPercent)
	return p.startCollecting(ctx, collecting{spool: dir, state: func(name string) string { return filepath.Join(dir, name) }})
}

func StartSeparateIngest(ctx context.Context, p *Pipeline) error {
	if _, err := p.Access.DB.Migrate(ctx); err != nil {
		return fmt.Errorf("prepare ledger: %w", err)
	}
	var err error
	p.Ledger, err = ledger.New(p.Config.Ledger, ledger.Deps{Store: p.Access.DB, Clock: p.Session.Clock, Log: p.Session.Log, Registry: p.Registry})
	if err != nil {
		return err
	}
	return p.StartIngest()
}
