package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/gputally/gputally/billing/statement"
	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/collector/source/exporter"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/httpd"
	"github.com/gputally/gputally/internal/store"
)

// Live is what a standalone reads: flags that count more than the configuration.
type Live struct {
	Source string
	Scrape []string // URLs of exporters
	Slot   time.Duration
}

// Apply puts the flags over the configuration.
func (f Live) Apply(s *cli.Session, cfg *settings.Config) error {
	cfg.HTTP.Listen = cmp.Or(s.Listen, cfg.HTTP.Listen)
	if f.Slot != 0 {
		if err := settings.ValidateSlot(f.Slot); err != nil {
			return cli.UsageError(fmt.Errorf("slot: %w", err))
		}
		cfg.Cluster.Slot = f.Slot
	}
	for _, url := range f.Scrape {
		cfg.Exporter.Targets = append(cfg.Exporter.Targets, exporter.Target{URL: url})
	}
	cfg.Collector.Source = cmp.Or(f.Source, cfg.Collector.Source)
	if err := cfg.ValidateSource(); err != nil {
		return cli.UsageError(err)
	}
	if err := cfg.HTTP.Validate(); err != nil {
		return cli.UsageError(err)
	}
	if err := settings.ValidateExporter(cfg.Exporter); err != nil {
		return cli.UsageError(fmt.Errorf("scrape: %w", err))
	}
	return nil
}

// Standalone runs every service on one data directory until ctx ends.
func Standalone(ctx context.Context, s *cli.Session, f Live) (err error) {
	cfg, err := ConfigOf(s)
	if err != nil {
		return err
	}
	if err := f.Apply(s, &cfg); err != nil {
		return err
	}
	p, server, err := StartStandalone(ctx, s, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Access.DB.Close()) }()
	if err := p.startScraping(ctx); err != nil {
		return errors.Join(err, p.Group.Stop())
	}
	s.Log.Info("gputally is running", "http", server.URL(), "socket", server.Socket(), "statements",
		statementsURL(server), "data", p.Access.Dir.Path(),
		"cluster", cfg.Cluster.Name, "slot", cfg.Cluster.Slot, "source", cfg.SourceName(), "targets",
		len(cfg.Exporter.Targets))
	return p.Group.Wait(ctx)
}

// statementsURL is where people read their statements.
func statementsURL(server *httpd.Server) string { return server.At(statement.Path) }

// StartStandalone takes the directory and starts everything but a source. On
// error all is stopped again.
func StartStandalone(ctx context.Context, s *cli.Session,
	cfg settings.Config,
) (p *Pipeline, server *httpd.Server, err error) {
	dir, err := datadir.Open(s.Data, Holder(s))
	if err != nil {
		return nil, nil, err
	}
	a, err := StartEmbedded(ctx, s, dir, cfg, true)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	p = NewPipeline(ctx, s, a)
	p.Group = a.group
	if err = p.open(ctx); err != nil {
		return nil, nil, err
	}
	if err = p.openFinance(ctx); err != nil {
		return nil, nil, err
	}
	if err = p.OpenRegister(ctx); err != nil {
		return nil, nil, err
	}
	p.WarnOfPrices(ctx)
	p.Config.HTTP.Socket = cmp.Or(p.Config.HTTP.Socket, filepath.Join(dir.TempDir(), httpSocketName))
	if server, err = p.listen(ctx); err != nil {
		return nil, nil, err
	}
	for _, start := range []func() error{
		p.startIngest, func() error { return p.startAnalyzer(ctx) },
		p.startBilling, func() error { return p.serve(server, true) },
	} {
		if err = start(); err != nil {
			return nil, nil, errors.Join(err, server.Close())
		}
	}
	err = dir.Publish(datadir.Run{
		EngineSocket: filepath.Join(dir.TempDir(), SocketName), BrokerAddress: a.Broker, BrokerPassword: a.password,
		HTTPAddress: server.Addr(), HTTPSocket: server.Socket(),
	})
	return p, server, err
}

// startScraping runs the live collector, where there is something to read.
func (p *Pipeline) startScraping(ctx context.Context) error {
	if p.Config.SourceName() == "" {
		p.Session.Log.Warn("no source of GPU readings is configured: give --source dcgm, --scrape URL, or " +
			"collector.source in the configuration")
		return nil
	}
	if err := p.keepsSlot(ctx); err != nil {
		return err
	}
	if err := p.Declare(ctx, p.Config.Cluster.Name, p.Config.Cluster.Slot); err != nil && p.Decisions.Whole() == nil {
		return err
	} else if err != nil {
		// What is not measured now is lost, and the table of clusters knows those that ran before.
		p.Session.Log.Error("the cluster is not declared; metering goes on", "cluster", p.Config.Cluster.Name, "error", err)
	}
	id, err := p.collectorID()
	if err != nil {
		return err
	}
	return p.startCollecting(ctx,
		collecting{
			spool: filepath.Join(p.Access.Dir.Join(datadir.SpoolDir), id),
			state: func(name string) string { return p.Access.Dir.Join(name) },
		})
}

// clusterSlotsSQL is each cluster's slot length, as ingest decides it.
const clusterSlotsSQL = `SELECT cluster, slot_ms FROM slot_lengths`

// keepsSlot refuses a slot length other than the cluster's own: all of it
// would be dead-lettered (R11).
func (p *Pipeline) keepsSlot(ctx context.Context) error {
	return p.OtherSlots(ctx, p.Config.Cluster.Name, p.Config.Cluster.Slot)
}

// SlotLengths are the clusters' slot lengths in ms, by name.
func SlotLengths(ctx context.Context, db *store.DB) (map[string]int64, error) {
	var rows []struct {
		Cluster string `ch:"cluster"`
		SlotMS  uint32 `ch:"slot_ms"`
	}
	if err := db.Select(ctx, &rows, clusterSlotsSQL); err != nil {
		return nil, fmt.Errorf("read slot lengths: %w", err)
	}
	out := map[string]int64{}
	for _, r := range rows {
		out[r.Cluster] = int64(r.SlotMS)
	}
	return out, nil
}
