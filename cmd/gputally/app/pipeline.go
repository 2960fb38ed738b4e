// Package app is what all use cases need: it opens a ledger for a command and connects the
// services of collector, ingest, analyzer and billing, which never import each other.
//
// Data in: a command's session and the configuration. Data out: an Access (database, and
// the embedded broker where there is one), a Pipeline of services on it, and the decisions
// that commands take. What was opened for a command is closed in reverse order, whatever
// fails. The packages beside it hold the use cases: ask and bill answer questions, load
// brings data in, proof checks, setup prepares, demo simulates.
package app

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
	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/collector"
	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/httpd"
	"github.com/gputally/gputally/internal/lifecycle"
	"github.com/gputally/gputally/internal/store"
)

const (
	// exporterState is the exporter source's memory. It lies outside datadir.SpoolDir,
	// where each entry is a spool.
	exporterState = "exporter.json"
	// DeviceState is the memory of the dcgm and nvml sources.
	DeviceState = "devices.json"
)

// Pipeline is the services on one ledger, wired by hand. Each start function
// adds to the group, which stops them in reverse.
type Pipeline struct {
	Session  *cli.Session
	Config   settings.Config
	Access   *Access
	Group    *lifecycle.Group
	Registry *prometheus.Registry
	Client   *broker.Client
	// brokers are the client's, for people.
	brokers string
	Ledger  *ledger.Ledger
	// decisions and register are of the services and commands that bill.
	Decisions  *decisions.Log
	Register   *invoice.Register
	finance    *store.DB // what people ask goes over it; nil: over access.db
	Projection *projection.Projection
	metering   *metering // the collector's; nil without one
}

// NewPipeline is connected to nothing yet. Its group is its own.
func NewPipeline(ctx context.Context, s *cli.Session, a *Access) *Pipeline {
	p := &Pipeline{
		Session: s, Config: a.Config, Access: a, Registry: prometheus.NewRegistry(),
		Group: lifecycle.New(ctx, lifecycle.Options{Clock: s.Clock, Log: s.Log, StopTimeout: stopTimeout}),
	}
	p.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return p
}

// open connects to the broker, checks the topics, and makes the ledger.
func (p *Pipeline) open(ctx context.Context) error {
	if p.Access.metrics != nil {
		p.Registry.MustRegister(p.Access.metrics)
	}
	if err := p.Connect(ctx); err != nil {
		return err
	}
	return p.newLedger()
}

func (p *Pipeline) newLedger() (err error) {
	p.Ledger, err = ledger.New(p.Config.Ledger,
		ledger.Deps{Store: p.Access.DB, Clock: p.Session.Clock, Log: p.Session.Log, Registry: p.Registry})
	return err
}

// Connect makes the broker client and checks the topics.
func (p *Pipeline) Connect(ctx context.Context) error {
	if err := p.newClient(); err != nil {
		return err
	}
	return p.ensureTopics(ctx)
}

// newClient makes the broker client; nothing is sent yet.
func (p *Pipeline) newClient() error {
	cfg, err := p.Config.Kafka.Broker()
	if err != nil {
		return err
	}
	if p.Access.Broker != "" {
		cfg.Brokers, cfg.TLS, cfg.SASL = []string{p.Access.Broker}, nil, broker.EmbeddedSASL(p.Access.password)
	}
	cfg.Registerer, cfg.Clock = p.Registry, p.Session.Clock
	p.Client, p.brokers = broker.NewClient(cfg, p.Session.Log), strings.Join(cfg.Brokers, ",")
	p.Group.OnStop("broker client", func() error { p.Client.Close(); return nil })
	return nil
}

func (p *Pipeline) ensureTopics(ctx context.Context) error {
	if err := p.Client.EnsureTopics(ctx, p.topics()...); err != nil {
		return fmt.Errorf("prepare topics at %s: %w", p.brokers, err)
	}
	return nil
}

// topics are those this process makes sure of: the embedded broker has them all,
// while of a cluster a collector need have no right on decisions, and an ingester
// reads them when it has to.
func (p *Pipeline) topics() []string {
	topics := []string{broker.TopicSamples, broker.TopicDeadLetter}
	if p.Access.Broker != "" {
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
func (p *Pipeline) topicsThen(publish func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for pause := topicsRetryMin; ; pause = min(2*pause, topicsRetryMax) {
			err := p.ensureTopics(ctx)
			if ctx.Err() != nil {
				return nil
			}
			if err == nil {
				return publish(ctx)
			}
			p.Session.Log.Error("batches wait in the spool", "error", err, "next_try_in", pause)
			if clock.Sleep(ctx, p.Session.Clock, pause) != nil {
				return nil
			}
		}
	}
}

// FetchBytes bounds a fetch per partition, compressed: what waits in memory for
// ingest is many times that.
const FetchBytes = 1 << 20

// SessionTimeout is how long an ingester that was killed keeps its partitions
// from the others; 6 s is the shortest that Kafka takes by default. Heartbeats go
// on while an insert takes minutes, so it covers no work, only a process that
// stands still. One that stood still for longer repeats a chunk: its commit is
// refused, and its rows are the same.
const SessionTimeout = 6 * time.Second

// startIngest runs ingester and ledger.
func (p *Pipeline) startIngest() error {
	consumer, err := p.Client.Consumer(p.Config.Ingest.Group, broker.TopicSamples, broker.ConsumerOptions{
		SessionTimeout: SessionTimeout, MaxBytes: FetchBytes,
	})
	if err != nil {
		return err
	}
	p.Group.OnStop("consumer", consumer.Close)
	in, err := ingest.New(p.Config.Ingest, ingest.Deps{
		Consumer: consumer, DeadLetters: p.Client.Producer(), Store: p.Access.DB, Origins: p.Follow(),
		Clusters: p.OwnCluster(),
		Clock:    p.Session.Clock, Log: p.Session.Log, Registry: p.Registry,
	})
	if err != nil {
		return err
	}
	p.Group.Go("ledger", p.Ledger.Run)
	p.Group.Go("ingest", in.Run)
	return nil
}

// StartIngestHere runs ingester and ledger unless another process does on this directory.
func (p *Pipeline) StartIngestHere() error {
	if p.Access.Dir == nil {
		return nil
	}
	return p.startIngest()
}

// OwnCluster is the one that the configuration of a separate ingester declares.
// On a data directory decisions do, since flags may say otherwise.
func (p *Pipeline) OwnCluster() map[string]int64 {
	if p.Access.Broker != "" {
		return nil
	}
	return map[string]int64{p.Config.Cluster.Name: p.Config.Cluster.Slot.Milliseconds()}
}

// startAnalyzer runs the analyzer at the price book's list rates.
func (p *Pipeline) startAnalyzer(ctx context.Context) error {
	rates, err := p.startRates(ctx)
	if err != nil {
		return err
	}
	service, err := analyzer.New(p.Config.Analyzer, analyzer.Deps{
		DB: p.Access.DB, Rates: rates, Zone: rates.Zone, Muted: p.muted, Clock: p.Session.Clock, Log: p.Session.Log,
		Registry: p.Registry,
	})
	if err != nil {
		return err
	}
	p.Group.Go("analyzer", service.Run)
	return nil
}

// startBilling runs the draft totals.
func (p *Pipeline) startBilling() error {
	service, err := billing.New(billing.DefaultConfig(),
		billing.Deps{
			Register: p.Register, Project: p.project, Clock: p.Session.Clock, Log: p.Session.Log,
			Registry: p.Registry,
		})
	if err != nil {
		return err
	}
	p.Group.Go("billing", service.Run)
	return nil
}

// project copies new decisions into ClickHouse, and sends the witness what it has missed.
func (p *Pipeline) project(ctx context.Context) (int64, error) {
	n, err := p.Projection.Project(ctx)
	p.Decisions.Remind(ctx)
	return n, err
}

// listen binds the address at once, so that a port in use is known before
// anything else starts; serve answers on it.
func (p *Pipeline) listen(ctx context.Context) (*httpd.Server, error) {
	server, err := httpd.New(p.Config.HTTP, p.Config.Billing.API,
		httpd.Deps{Registry: p.Registry, Clock: p.Session.Clock, Log: p.Session.Log})
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
func (p *Pipeline) serve(server *httpd.Server, finance bool) error {
	server.AddReady("clickhouse", p.Access.DB.Ping)
	if finance {
		server.AddReady("decisions", p.Projection.Whole)
		if err := api.Mount(server.Mux(), api.Deps{
			DB: p.finance, Register: p.Register, Decisions: p.Decisions, Clock: p.Session.Clock, Log: p.Session.Log,
			Registry: p.Registry, Focus: p.Config.Billing.Focus,
			Explain: p.explain,
		}); err != nil {
			return err
		}
		if err := statement.Register(server.Mux(), statement.Deps{
			DB: p.finance, Invoices: p.Register, Head: p.Register.Head, Marks: p.Register.Marks,
			Clock: p.Session.Clock, Log: p.Session.Log,
		}); err != nil {
			return err
		}
	}
	p.Group.Go("http", server.Run)
	return nil
}

// CollectorOptions name a collector and how it treats a full spool.
type CollectorOptions struct {
	ID      string
	Cluster string
	Slot    time.Duration
	Dir     string // of the spool
	Policy  spool.Policy
	Source  source.Source
	// attributor and observer may be nil.
	attributor collector.Attributor
	observer   collector.Observer
}

// NewCollector opens the spool and a boot on it, and publishes from now on.
func (p *Pipeline) NewCollector(o CollectorOptions) (*collector.Collector, *spool.Spool, error) {
	sp, err := spool.Open(o.Dir, spool.Options{
		MaxBytes: p.Config.Collector.SpoolMaxBytes, Policy: o.Policy, Describe: collector.Describe, Log: p.Session.Log,
	})
	if err != nil {
		return nil, nil, err
	}
	p.Group.OnStop("spool "+o.ID, sp.Close)
	cfg := collector.DefaultConfig()
	cfg.Cluster, cfg.Collector, cfg.Slot = o.Cluster, o.ID, o.Slot
	cfg.SpoolDir, cfg.SpoolMaxBytes = o.Dir, p.Config.Collector.SpoolMaxBytes
	c, err := collector.New(cfg, collector.Deps{
		Source: o.Source, Attributor: o.attributor, Observer: o.observer, Producer: p.Client.Producer(), Spool: sp,
		Clock: p.Session.Clock, Log: p.Session.Log, Registry: p.Registry,
	})
	if err != nil {
		return nil, nil, err
	}
	p.Group.Go("publisher "+o.ID, p.topicsThen(c.Publish))
	return c, sp, nil
}

// collectorID is the configured one, else the node's name.
func (p *Pipeline) collectorID() (string, error) {
	if p.Config.Collector.ID != "" {
		return p.Config.Collector.ID, nil
	}
	return p.Config.Collector.NodeName()
}
