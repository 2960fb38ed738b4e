package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/gputally/gputally/analyzer"
	"github.com/gputally/gputally/billing"
	"github.com/gputally/gputally/billing/api"
	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/projection"
	"github.com/gputally/gputally/billing/statement"
	"github.com/gputally/gputally/collector"
	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/httpd"
	"github.com/gputally/gputally/internal/lifecycle"
	"github.com/gputally/gputally/internal/store"
)

const (
	spoolDir = datadir.SpoolDir
	// exporterState is the exporter source's memory. It lies outside spoolDir,
	// where each entry is a spool.
	exporterState = "exporter.json"
	// deviceState is the memory of the dcgm and nvml sources.
	deviceState = "devices.json"
)

// pipeline is the services on one ledger, wired by hand. Each start function
// adds to the group, which stops them in reverse.
type pipeline struct {
	s      *session
	cfg    Config
	access *access
	group  *lifecycle.Group
	reg    *prometheus.Registry
	client *broker.Client
	// brokers are the client's, for people.
	brokers string
	ledger  *ledger.Ledger
	// decisions and register are of the services and commands that bill.
	decisions  *decisions.Log
	register   *invoice.Register
	finance    *store.DB // what people ask goes over it; nil: over access.db
	projection *projection.Projection
	metering   *metering // the collector's; nil without one
}

// newPipeline connects to the broker and checks the topics. group stops what
// is started on it.
func (s *session) newPipeline(ctx context.Context, a *access, group *lifecycle.Group) (*pipeline, error) {
	p := &pipeline{s: s, cfg: a.cfg, access: a, group: group, reg: prometheus.NewRegistry()}
	p.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if a.metrics != nil {
		p.reg.MustRegister(a.metrics)
	}
	if err := p.connect(ctx); err != nil {
		return nil, err
	}
	if err := p.openLedger(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *pipeline) openLedger() (err error) {
	p.ledger, err = ledger.New(p.cfg.Ledger, ledger.Deps{Store: p.access.db, Clock: p.s.clock, Log: p.s.log, Registry: p.reg})
	return err
}

// connect makes the broker client and checks the topics.
func (p *pipeline) connect(ctx context.Context) error {
	if err := p.newClient(); err != nil {
		return err
	}
	return p.ensureTopics(ctx)
}

// newClient makes the broker client; nothing is sent yet.
func (p *pipeline) newClient() error {
	cfg, err := p.cfg.Kafka.broker()
	if err != nil {
		return err
	}
	if p.access.broker != "" {
		cfg.Brokers, cfg.TLS, cfg.SASL = []string{p.access.broker}, nil, broker.EmbeddedSASL(p.access.password)
	}
	cfg.Registerer, cfg.Clock = p.reg, p.s.clock
	p.client, p.brokers = broker.NewClient(cfg, p.s.log), strings.Join(cfg.Brokers, ",")
	p.group.OnStop("broker client", func() error { p.client.Close(); return nil })
	return nil
}

func (p *pipeline) ensureTopics(ctx context.Context) error {
	if err := p.client.EnsureTopics(ctx, p.topics()...); err != nil {
		return fmt.Errorf("prepare topics at %s: %w", p.brokers, err)
	}
	return nil
}

// topics are those this process makes sure of: the embedded broker has them all,
// while of a cluster a collector need have no right on decisions, and an ingester
// reads them when it has to.
func (p *pipeline) topics() []string {
	topics := []string{broker.TopicSamples, broker.TopicDeadLetter}
	if p.access.broker != "" {
		topics = append(topics, broker.TopicDecisions)
	}
	return topics
}

const (
	topicsRetryMin = time.Second
	topicsRetryMax = 30 * time.Second
)

// topicsThen publishes once the topics are as they must be. A collector starts
// while Kafka is away, and spools until then; ctx's end is the wanted end.
func (p *pipeline) topicsThen(publish func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for pause := topicsRetryMin; ; pause = min(2*pause, topicsRetryMax) {
			err := p.ensureTopics(ctx)
			if ctx.Err() != nil {
				return nil
			}
			if err == nil {
				return publish(ctx)
			}
			p.s.log.Error("batches wait in the spool", "error", err, "next_try_in", pause)
			if clock.Sleep(ctx, p.s.clock, pause) != nil {
				return nil
			}
		}
	}
}

// fetchBytes bounds a fetch per partition, compressed: what waits in memory for
// ingest is many times that.
const fetchBytes = 1 << 20

// sessionTimeout is how long an ingester that was killed keeps its partitions
// from the others; 6 s is the shortest that Kafka takes by default. Heartbeats go
// on while an insert takes minutes, so it covers no work, only a process that
// stands still. One that stood still for longer repeats a chunk: its commit is
// refused, and its rows are the same.
const sessionTimeout = 6 * time.Second

// startIngest runs ingester and ledger.
func (p *pipeline) startIngest() error {
	consumer, err := p.client.Consumer(p.cfg.Ingest.Group, broker.TopicSamples, broker.ConsumerOptions{
		SessionTimeout: sessionTimeout, MaxBytes: fetchBytes,
	})
	if err != nil {
		return err
	}
	p.group.OnStop("consumer", consumer.Close)
	in, err := ingest.New(p.cfg.Ingest, ingest.Deps{
		Consumer: consumer, DeadLetters: p.client.Producer(), Store: p.access.db, Origins: p.follow(), Clusters: p.ownCluster(),
		Clock: p.s.clock, Log: p.s.log, Registry: p.reg,
	})
	if err != nil {
		return err
	}
	p.group.Go("ledger", p.ledger.Run)
	p.group.Go("ingest", in.Run)
	return nil
}

// ownCluster is the one that the configuration of a separate ingester declares.
// On a data directory decisions do, since flags may say otherwise.
func (p *pipeline) ownCluster() map[string]int64 {
	if p.access.broker != "" {
		return nil
	}
	return map[string]int64{p.cfg.Cluster.Name: p.cfg.Cluster.Slot.Milliseconds()}
}

// startAnalyzer runs the analyzer at the price book's list rates.
func (p *pipeline) startAnalyzer(ctx context.Context) error {
	rates, err := p.startRates(ctx)
	if err != nil {
		return err
	}
	service, err := analyzer.New(p.cfg.Analyzer, analyzer.Deps{
		DB: p.access.db, Rates: rates, Clock: p.s.clock, Log: p.s.log, Registry: p.reg,
	})
	if err != nil {
		return err
	}
	p.group.Go("analyzer", service.Run)
	return nil
}

// startBilling runs the draft totals.
func (p *pipeline) startBilling() error {
	service, err := billing.New(billing.DefaultConfig(), billing.Deps{Register: p.register, Project: p.project, Clock: p.s.clock, Log: p.s.log, Registry: p.reg})
	if err != nil {
		return err
	}
	p.group.Go("billing", service.Run)
	return nil
}

// project brings the decisions into ClickHouse, and tells a witness that was away.
func (p *pipeline) project(ctx context.Context) (int64, error) {
	n, err := p.projection.Project(ctx)
	p.decisions.Remind(ctx)
	return n, err
}

// listen binds the address at once, so that a port in use is known before
// anything else starts; serve answers on it.
func (p *pipeline) listen(ctx context.Context) (*httpd.Server, error) {
	server, err := httpd.New(p.cfg.HTTP, p.cfg.Billing.API, httpd.Deps{Registry: p.reg, Clock: p.s.clock, Log: p.s.log})
	if err != nil {
		return nil, err
	}
	if err := server.Listen(ctx); err != nil {
		return nil, err
	}
	return server, nil
}

// serve mounts finance API and statement pages where finance is set, and answers
// from now on.
func (p *pipeline) serve(server *httpd.Server, finance bool) error {
	server.AddReady("clickhouse", p.access.db.Ping)
	if finance {
		server.AddReady("decisions", p.projection.Whole)
		if err := api.Mount(server.Mux(), api.Deps{
			DB: p.finance, Register: p.register, Decisions: p.decisions, Clock: p.s.clock, Log: p.s.log, Registry: p.reg, Focus: p.cfg.Billing.Focus,
			Explain: p.explain,
		}); err != nil {
			return err
		}
		if err := statement.Register(server.Mux(), statement.Deps{
			DB: p.finance, Invoices: p.register, Head: p.register.Head, Clock: p.s.clock, Log: p.s.log,
		}); err != nil {
			return err
		}
	}
	p.group.Go("http", server.Run)
	return nil
}

// collectorOptions name a collector and how it treats a full spool.
type collectorOptions struct {
	id      string
	cluster string
	slot    time.Duration
	dir     string // of the spool
	policy  spool.Policy
	source  source.Source
	// attributor and observer may be nil.
	attributor collector.Attributor
	observer   collector.Observer
}

// newCollector opens the spool and a boot on it, and publishes from now on.
func (p *pipeline) newCollector(o collectorOptions) (*collector.Collector, *spool.Spool, error) {
	sp, err := spool.Open(o.dir, spool.Options{
		MaxBytes: p.cfg.Collector.SpoolMaxBytes, Policy: o.policy, Describe: collector.Describe, Log: p.s.log,
	})
	if err != nil {
		return nil, nil, err
	}
	p.group.OnStop("spool "+o.id, sp.Close)
	cfg := collector.DefaultConfig()
	cfg.Cluster, cfg.Collector, cfg.Slot, cfg.SpoolDir, cfg.SpoolMaxBytes = o.cluster, o.id, o.slot, o.dir, p.cfg.Collector.SpoolMaxBytes
	c, err := collector.New(cfg, collector.Deps{
		Source: o.source, Attributor: o.attributor, Observer: o.observer, Producer: p.client.Producer(), Spool: sp, Clock: p.s.clock, Log: p.s.log, Registry: p.reg,
	})
	if err != nil {
		return nil, nil, err
	}
	p.group.Go("publisher "+o.id, p.topicsThen(c.Publish))
	return c, sp, nil
}

// collectorID is the configured one, else the node's name.
func (p *pipeline) collectorID() (string, error) {
	if p.cfg.Collector.ID != "" {
		return p.cfg.Collector.ID, nil
	}
	return p.cfg.Collector.nodeName()
}

// lag is how many messages ingest has yet to read.
func (p *pipeline) lag(ctx context.Context) (int64, error) {
	offsets, err := p.client.Offsets(ctx, broker.TopicSamples, p.cfg.Ingest.Group)
	if err != nil {
		return 0, fmt.Errorf("read lag: %w", err)
	}
	var lag int64
	for _, o := range offsets {
		lag += o.Lag()
	}
	return lag, nil
}

const (
	settlePoll = 100 * time.Millisecond
	// engineBack is how long an engine that crashed may be away: its next start
	// and the loading of its tables.
	engineBack = time.Minute
)

// patiently does a step again while the store is away, as an engine that
// crashed is for some seconds, or has no room.
func (p *pipeline) patiently(ctx context.Context, what string, do func() error) error {
	began := p.s.clock.Now()
	for pause := settlePoll; ; pause = min(2*pause, 2*time.Second) {
		err := do()
		if ctx.Err() != nil || !store.Retryable(err) || p.s.clock.Since(began) > engineBack {
			return err
		}
		p.s.log.Warn("the store does not answer, trying again", "step", what, "error", err)
		if err := clock.Sleep(ctx, p.s.clock, pause); err != nil {
			return err
		}
	}
}

// settle waits until ingest has read all that is in the topic, and brings the
// ledger up to date. step, which may be nil, is told the lag.
func (p *pipeline) settle(ctx context.Context, step func(lag int64)) error {
	for {
		lag, err := p.lag(ctx)
		if err != nil {
			return err
		}
		if step != nil {
			step(lag)
		}
		if lag == 0 {
			break
		}
		if err := clock.Sleep(ctx, p.s.clock, settlePoll); err != nil {
			return err
		}
	}
	for dirty := 1; dirty > 0; {
		if err := p.patiently(ctx, "ledger pass", func() (err error) {
			dirty, err = p.ledger.Pass(ctx)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// drained waits until a spool has nothing left to send.
func (p *pipeline) drained(ctx context.Context, sp *spool.Spool) error {
	for sp.Stats().Records > 0 {
		if err := clock.Sleep(ctx, p.s.clock, settlePoll); err != nil {
			return err
		}
	}
	return nil
}
