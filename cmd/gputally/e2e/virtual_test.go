package e2e

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/collector"
	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/exporter"
	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions/decisionstest"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/usage"
)

const (
	scrapeSlot   = time.Minute
	slotsPerHour = 60
)

// firstHour is when the scraped fleet is switched on.
var firstHour = time.Date(2024, 3, 4, 10, 0, 0, 0, time.UTC)

// scrapedNode is a dcgm-exporter: what it exposes in a slot, counted from the
// first; silent, it breaks every connection.
type scrapedNode struct {
	expose func(slot int64) string
	silent atomic.Bool
}

// scrapeRig is a live collector in virtual time: exporters over HTTP, spool,
// broker, ingest and the ledger on the real engine. Only the collector waits on
// the clock.
type scrapeRig struct {
	clk    *clock.Fake
	db     *store.DB
	ledger *ledger.Ledger
	client *broker.Client // in real time: its consumer waits for messages
	spool  *spool.Spool
	reg    *prometheus.Registry
	// address is the broker's.
	address string
}

func newScrapeRig(t *testing.T, nodes ...*scrapedNode) *scrapeRig {
	t.Helper()
	r := newVirtualRig(t)
	r.collect(t, scrapeSlot, collector.Deps{Source: r.exporters(t, nodes)})
	return r
}

// newVirtualRig is all but the collector.
func newVirtualRig(t *testing.T) *scrapeRig {
	t.Helper()
	r := &scrapeRig{clk: clock.NewFake(firstHour), db: storetest.Open(t), reg: prometheus.NewRegistry()}
	// No ticks of retention: who waits on the clock is the collector.
	embedded, err := broker.StartEmbedded(broker.EmbeddedOptions{
		Dir: t.TempDir(), Log: quietLog(), Clock: r.clk,
		RetentionCheck: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := embedded.Close(); err != nil {
			t.Error(err)
		}
	})
	r.client = brokerClient(embedded.Addr(), clock.Real())
	t.Cleanup(r.client.Close)
	if err := r.client.EnsureTopics(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.ledger, err = ledger.New(ledger.DefaultConfig(),
		ledger.Deps{Store: r.db, Clock: r.clk, Log: quietLog(), Registry: r.reg})
	if err != nil {
		t.Fatal(err)
	}
	r.address = embedded.Addr()
	r.serve(t, r.ingest(t))
	return r
}

// serve runs services until the test ends.
func (r *scrapeRig) serve(t *testing.T, runs ...func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var services sync.WaitGroup
	t.Cleanup(func() { cancel(); services.Wait() })
	for _, run := range runs {
		services.Go(func() {
			if err := run(ctx); err != nil {
				t.Errorf("a service ended with %v", err)
			}
		})
	}
}

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

func brokerClient(address string, clk clock.Clock) *broker.Client {
	cfg := broker.DefaultConfig()
	cfg.Brokers, cfg.Clock = []string{address}, clk
	return broker.NewClient(cfg, quietLog())
}

// ingest is the ingester, ready to run.
func (r *scrapeRig) ingest(t *testing.T) func(context.Context) error {
	t.Helper()
	consumer, err := r.client.Consumer(ingest.DefaultConfig().Group, broker.TopicSamples, broker.ConsumerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	in, err := ingest.New(ingest.DefaultConfig(), ingest.Deps{
		Consumer: consumer, Origins: &decisionstest.Open{}, DeadLetters: r.client.Producer(), Store: r.db, Clock: r.clk,
		Log: quietLog(), Registry: r.reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context) error {
		err := in.Run(ctx)
		if closeErr := consumer.Close(); err == nil {
			err = closeErr
		}
		return err
	}
}

// exporters is a source that scrapes the nodes.
func (r *scrapeRig) exporters(t *testing.T, nodes []*scrapedNode) source.Source {
	t.Helper()
	cfg := exporter.DefaultConfig()
	cfg.Timeout = 20 * time.Second
	for _, n := range nodes {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if n.silent.Load() {
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, n.expose(int64(r.clk.Since(firstHour)/scrapeSlot)-1))
		}))
		t.Cleanup(server.Close)
		cfg.Targets = append(cfg.Targets, exporter.Target{URL: server.URL + "/metrics", TrustHostname: true})
	}
	src, err := exporter.New(cfg, exporter.Deps{Cluster: "c", Clock: r.clk, Log: quietLog(), Registry: r.reg})
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// collect runs a collector on a source, and on owners where deps has them.
func (r *scrapeRig) collect(t *testing.T, slot time.Duration, deps collector.Deps) {
	t.Helper()
	client := brokerClient(r.address, r.clk)
	t.Cleanup(client.Close)
	dir := filepath.Join(t.TempDir(), "spool")
	var err error
	if r.spool, err = spool.Open(dir, spool.Options{Describe: collector.Describe, Log: quietLog()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.spool.Close(); err != nil {
			t.Error(err)
		}
	})
	of := collector.DefaultConfig()
	of.Cluster, of.Collector, of.Slot, of.SpoolDir = "c", "col-1", slot, dir
	deps.Producer, deps.Spool, deps.Clock, deps.Log, deps.Registry = client.Producer(), r.spool, r.clk, quietLog(), r.reg
	c, err := collector.New(of, deps)
	if err != nil {
		t.Fatal(err)
	}
	r.serve(t, c.Run)
}

// pass lets slots go by: each is over when the collector waits again.
func (r *scrapeRig) pass(t *testing.T, slots int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programtest.RunPatience)
	defer cancel()
	for range slots {
		if err := r.clk.BlockUntil(ctx, 1); err != nil {
			t.Fatalf("the collector does not wait for the clock: %v", err)
		}
		r.clk.Advance(scrapeSlot)
		if err := r.clk.BlockUntil(ctx, 1); err != nil {
			t.Fatalf("the collector does not wait for the clock: %v", err)
		}
	}
}

// settle waits until all that was spooled is in the ledger.
func (r *scrapeRig) settle(t *testing.T) {
	t.Helper()
	programtest.Eventually(t, "ingest has read all that was spooled", func() bool {
		offsets, err := r.client.Offsets(t.Context(), broker.TopicSamples, ingest.DefaultConfig().Group)
		if err != nil {
			t.Fatal(err)
		}
		var lag, sent int64
		for _, o := range offsets {
			lag, sent = lag+o.Lag(), sent+o.Last
		}
		return lag == 0 && r.spool.Stats().Records == 0 && sent == int64(r.spool.Stats().Appended)
	})
	for dirty := 1; dirty > 0; {
		var err error
		if dirty, err = r.ledger.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// usage is the ledger of some hours from the first, one line per group.
func (r *scrapeRig) usage(t *testing.T, hours int, by ...string) []string {
	t.Helper()
	q := usage.Query{By: by, From: firstHour, To: firstHour.Add(time.Duration(hours) * time.Hour)}
	rows, err := usage.Run(t.Context(), r.db, q)
	if err != nil {
		t.Fatal(err)
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		lines[i] = strings.Join(row.By, " ") + ":"
		for b, ms := range row.Buckets {
			if ms.Sign() > 0 {
				lines[i] += fmt.Sprintf(" %s %d", ask.BucketNames[b], ms)
			}
		}
		if row.EnergyMJ.Sign() != 0 {
			lines[i] += fmt.Sprintf(" %d J", row.EnergyMJ.Int64()/1000)
		}
	}
	return slices.DeleteFunc(lines, func(line string) bool { return strings.HasSuffix(line, ":") })
}

// verify carries out the checks of ingest and of the ledger.
func (r *scrapeRig) verify(t *testing.T) {
	t.Helper()
	all := ingest.Checks(ingest.CheckDeps{
		Store: r.db,
		Offsets: func(ctx context.Context) ([]broker.PartitionOffsets, error) {
			return r.client.Offsets(ctx, broker.TopicSamples, ingest.DefaultConfig().Group)
		},
		Spools: func(context.Context) ([]ingest.SpoolState, error) {
			st := r.spool.Stats()
			return []ingest.SpoolState{{
				Collector: "col-1", Appended: st.Appended, Cursor: st.Cursor, Remaining: st.Records,
				Dropped: st.Dropped,
			}}, nil
		},
	})
	results, err := check.Run(t.Context(), append(all, r.ledger.Checks()...))
	if err != nil {
		t.Fatal(err)
	}
	for _, res := range results {
		if !res.OK {
			t.Errorf("%s fails: %+v", res.Name, res)
		}
	}
}

// counter is the sum of a metric's series.
func (r *scrapeRig) counter(t *testing.T, name string) (sum float64) {
	t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.Metric {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}
