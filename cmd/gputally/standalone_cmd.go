package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/billing/statement"
	"github.com/gputally/gputally/collector/source/exporter"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/httpd"
	"github.com/gputally/gputally/internal/store"
)

type standaloneFlags struct {
	data, listen string
	source       string
	scrape       []string
	slot         time.Duration
}

func (s *session) standaloneCommand() *cobra.Command {
	var f standaloneFlags
	cmd := &cobra.Command{
		Use:   "standalone",
		Short: "Run every service on one data directory",
		Long: "Runs collector, broker, ingest, ledger, analyzer, billing and the HTTP endpoint on one data directory,\n" +
			"with ClickHouse in a helper process, until it is stopped (Ctrl-C). All other commands with the same\n" +
			"--data work beside it. It can be killed at any instant and started again.",
		Example: examples(
			"gputally standalone --data DIR --scrape http://127.0.0.1:9400/metrics", "meter a running dcgm-exporter",
			"gputally standalone --data DIR --scrape http://n1:9400/metrics --scrape http://n2:9400/metrics --slot 30s", "two nodes, every 30 s",
		),
		Args:        cobra.NoArgs,
		Annotations: map[string]string{serviceAnnotation: ""},
	}
	cmd.Flags().StringVar(&f.data, "data", "", "data `DIR`ectory, made where it is missing")
	cmd.Flags().StringArrayVar(&f.scrape, "scrape", nil, "dcgm-exporter `URL` to scrape once per slot; may stand several times")
	cmd.Flags().StringVar(&f.source, "source", "", "`NAME` of what is read: dcgm or nvml for this machine's own GPUs (default: the configuration's)")
	cmd.Flags().DurationVar(&f.slot, "slot", 0, "length of a slot, such as 10s; divides the hour (default: the configuration's)")
	cmd.Flags().StringVar(&f.listen, "listen", "", "loopback `HOST:PORT` of the HTTP endpoint, or unix: its socket alone (default: the configuration's)")
	_ = cmd.MarkFlagRequired("data") // fails only for a flag that isn't there
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error { return s.standalone(ctx, f) })
	return cmd
}

// apply puts flags over the configuration.
func (f standaloneFlags) apply(cfg *Config) error {
	if f.listen != "" {
		cfg.HTTP.Listen = f.listen
	}
	if f.slot != 0 {
		if err := validateSlot(f.slot); err != nil {
			return usageError{fmt.Errorf("slot: %w", err)}
		}
		cfg.Cluster.Slot = f.slot
	}
	for _, url := range f.scrape {
		cfg.Exporter.Targets = append(cfg.Exporter.Targets, exporter.Target{URL: url})
	}
	cfg.Collector.Source = cmp.Or(f.source, cfg.Collector.Source)
	if err := cfg.validateSource(); err != nil {
		return usageError{err}
	}
	if err := cfg.HTTP.Validate(); err != nil {
		return usageError{err}
	}
	if err := validateExporter(cfg.Exporter); err != nil {
		return usageError{fmt.Errorf("scrape: %w", err)}
	}
	return nil
}

func (s *session) standalone(ctx context.Context, f standaloneFlags) (err error) {
	cfg, err := s.config(f.data)
	if err != nil {
		return err
	}
	if err := f.apply(&cfg); err != nil {
		return err
	}
	p, server, err := s.startStandalone(ctx, f.data, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.access.db.Close()) }()
	if err := p.startScraping(ctx); err != nil {
		return errors.Join(err, p.group.Stop())
	}
	s.log.Info("gputally is running", "http", server.URL(), "socket", server.Socket(), "statements", statementsURL(server), "data", p.access.dir.Path(),
		"cluster", cfg.Cluster.Name, "slot", cfg.Cluster.Slot, "source", cfg.source(), "targets", len(cfg.Exporter.Targets))
	return p.group.Wait(ctx)
}

// statementsURL is where people read their statements.
func statementsURL(server *httpd.Server) string { return server.At(statement.Path) }

// startStandalone takes the directory and starts everything but a source. On
// error all is stopped again.
func (s *session) startStandalone(ctx context.Context, dataDir string, cfg Config) (p *pipeline, server *httpd.Server, err error) {
	dir, err := datadir.Open(dataDir, s.holder())
	if err != nil {
		return nil, nil, err
	}
	a, err := s.startEmbedded(ctx, dir, cfg, true)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if p, err = s.newPipeline(ctx, a, a.group); err != nil {
		return nil, nil, err
	}
	if err = p.openFinance(ctx); err != nil {
		return nil, nil, err
	}
	if err = p.openRegister(ctx); err != nil {
		return nil, nil, err
	}
	p.warnOfPrices(ctx)
	p.cfg.HTTP.Socket = cmp.Or(p.cfg.HTTP.Socket, filepath.Join(dir.TempDir(), httpSocketName))
	if server, err = p.listen(ctx); err != nil {
		return nil, nil, err
	}
	for _, start := range []func() error{
		p.startIngest, func() error { return p.startAnalyzer(ctx) }, p.startBilling, func() error { return p.serve(server, true) },
	} {
		if err = start(); err != nil {
			return nil, nil, errors.Join(err, server.Close())
		}
	}
	err = dir.Publish(datadir.Run{
		EngineSocket: filepath.Join(dir.TempDir(), socketName), BrokerAddress: a.broker, BrokerPassword: a.password, HTTPAddress: server.Addr(), HTTPSocket: server.Socket(),
	})
	return p, server, err
}

// startScraping runs the live collector, where there is something to read.
func (p *pipeline) startScraping(ctx context.Context) error {
	if p.cfg.source() == "" {
		p.s.log.Warn("nothing is read: give --source dcgm, --scrape URL, or collector.source in the configuration")
		return nil
	}
	if err := p.keepsSlot(ctx); err != nil {
		return err
	}
	if err := p.declare(ctx, p.cfg.Cluster.Name, p.cfg.Cluster.Slot, ""); err != nil && p.decisions.Whole() == nil {
		return err
	} else if err != nil { // what was measured can't be measured again, and the table of clusters knows those that ran before
		p.s.log.Error("the cluster is not declared; metering goes on", "cluster", p.cfg.Cluster.Name, "error", err)
	}
	id, err := p.collectorID()
	if err != nil {
		return err
	}
	return p.startCollecting(ctx, collecting{spool: filepath.Join(p.access.dir.Join(spoolDir), id), state: func(name string) string { return p.access.dir.Join(name) }})
}

// clusterSlotsSQL is each cluster's slot length, as ingest decides it.
const clusterSlotsSQL = `SELECT cluster, slot_ms FROM slot_lengths`

// keepsSlot refuses a slot length other than the cluster's own: all of it
// would be dead-lettered (R11).
func (p *pipeline) keepsSlot(ctx context.Context) error {
	return p.otherSlots(ctx, p.cfg.Cluster.Name, p.cfg.Cluster.Slot)
}

func slotLengths(ctx context.Context, db *store.DB) (map[string]int64, error) {
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
