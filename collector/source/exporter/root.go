package exporter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/collector/source"
	"github.com/gpuledger/gpuledger/collector/source/memory"
	"github.com/gpuledger/gpuledger/internal/clock"
	"github.com/gpuledger/gpuledger/internal/wire"
)

// parallelScrapes bounds how many exporters are scraped at once.
const parallelScrapes = 32

// Deps are what a Source works with. HTTPClient may be nil.
type Deps struct {
	Cluster    string
	HTTPClient *http.Client
	// StateFile keeps counters and health flags over restarts (R9, R16); empty:
	// they end with the process. Its folder must be there.
	StateFile string
	Clock     clock.Clock
	Log       *slog.Logger
	Registry  prometheus.Registerer
}

// Source scrapes dcgm-exporters once per slot.
type Source struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	targets []*target
	memory  *memory.Memory
	file    memory.File
	shared  map[string]map[*target]bool // by node: the targets that ever had rows of it
	guessed map[string]bool             // UUIDs whose inferred MIG mode was logged

	restored bool
}

var (
	_ source.Source    = (*Source)(nil)
	_ source.Committer = (*Source)(nil)
)

// target is one exporter.
type target struct {
	url  string
	name string // without a password, for people and metrics
	node string // of rows that name none
	// untelling: its missing rows say nothing of MIG (see learnTargets).
	untelling bool
}

// New makes a source that scrapes nothing until Read.
func New(cfg Config, deps Deps) (*Source, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure exporter source: %w", err)
	}
	if deps.Cluster == "" {
		return nil, errors.New("configure exporter source: cluster is empty")
	}
	if deps.HTTPClient == nil {
		deps.HTTPClient = &http.Client{Transport: &http.Transport{
			MaxIdleConnsPerHost: 1,
			IdleConnTimeout:     2 * time.Minute,
		}}
	}
	s := newSource(cfg, deps)
	for _, t := range cfg.Targets {
		u, err := url.Parse(t.URL)
		if err != nil {
			return nil, fmt.Errorf("configure exporter source: parse url %q: %w", redact(t.URL), err)
		}
		s.targets = append(s.targets, &target{url: t.URL, name: redact(t.URL), node: cmp.Or(t.Node, u.Hostname())})
	}
	return s, nil
}

// reading is what one target showed, or why it showed nothing.
type reading struct {
	target  *target
	at      time.Time // of samples that don't say when
	samples []sample
	// renamed: the scraper is known to have renamed the exporter's own labels,
	// whether these rows show it or not.
	renamed bool
	err     error
}

// errAway is a target's that is missing without anybody asking it now.
var errAway = errors.New("has no rows in this slot")

// newSource has no targets yet.
func newSource(cfg Config, deps Deps) *Source {
	return &Source{
		cfg: cfg, deps: deps, metrics: newMetrics(deps.Registry),
		memory: memory.New(deps.Log), file: memory.File{Path: deps.StateFile, Kind: stateKind},
		shared: map[string]map[*target]bool{}, guessed: map[string]bool{},
	}
}

// Read scrapes every exporter once; the readings stand for the whole slot.
// Errors name the exporter, or the GPU that had to be left out. What it returns
// is in the state file already: a crash before it is spooled loses the slot with
// its energy, and counts no energy twice.
func (s *Source) Read(ctx context.Context, slot source.Slot) ([]*wire.Batch, error) {
	s.restore()
	readings := s.scrapeAll(ctx, slot)
	if errors.Is(ctx.Err(), context.Canceled) {
		// A reading that is broken off counts as none: the next one covers its time.
		return nil, fmt.Errorf("read slot %s: %w", slot.Start, ctx.Err())
	}
	at := s.deps.Clock.Now()
	for i := range readings {
		readings[i].at = at
	}
	batches, err := s.batches(slot, readings)
	for _, r := range readings {
		s.countScrape(r.target, r.err)
	}
	s.memory.Forget(at)
	s.save()
	return batches, err
}

// batches makes a batch of each node that the readings have rows of. A reading
// without any has failed, and says so from then on.
func (s *Source) batches(slot source.Slot, readings []reading) ([]*wire.Batch, error) {
	nodes, failed := map[string]*nodeView{}, map[*target]bool{}
	var errs []error
	for i := range readings {
		r := &readings[i]
		if r.err == nil && s.fold(r, nodes) == 0 {
			r.err = errors.New("no GPU rows: the exporter answers, but DCGM gives it nothing")
		}
		if r.err == nil {
			continue
		}
		failed[r.target] = true
		if !errors.Is(r.err, errAway) {
			errs = append(errs, fmt.Errorf("scrape %s: %w", r.target.name, r.err))
		}
	}
	batches := make([]*wire.Batch, 0, len(nodes))
	learnTargets(nodes)
	s.metrics.inferred.Set(0)
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		batch, err := s.batch(nodes[name], slot)
		if s.missesTarget(nodes[name], failed) {
			batch.Enumeration = wire.Enumeration_ENUMERATION_PARTIAL
		}
		batches = append(batches, batch)
		errs = append(errs, err)
	}
	return batches, errors.Join(errs...)
}

// Commit says that the batches of the last Read are spooled.
func (s *Source) Commit() { s.memory.Commit() }

// scrapeAll keeps the order of the targets in its answer.
func (s *Source) scrapeAll(ctx context.Context, slot source.Slot) []reading {
	timeout := min(s.cfg.Timeout, slot.Length*4/5)
	readings := make([]reading, len(s.targets))
	gate := make(chan struct{}, parallelScrapes)
	var wg sync.WaitGroup
	for i, t := range s.targets {
		wg.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			readings[i].target = t
			readings[i].samples, readings[i].err = s.scrape(ctx, t)
		})
	}
	wg.Wait()
	return readings
}

func (s *Source) scrape(ctx context.Context, t *target) ([]sample, error) {
	start := s.deps.Clock.Now()
	defer func() { s.metrics.duration.WithLabelValues(t.name).Set(s.deps.Clock.Since(start).Seconds()) }()
	body, err := fetch(ctx, s.deps.HTTPClient, t.url, s.cfg.BodyLimitBytes)
	if err != nil {
		return nil, err
	}
	samples, series, err := parse(body)
	s.metrics.series.WithLabelValues(t.name).Set(float64(series))
	return samples, err
}

func (s *Source) countScrape(t *target, err error) {
	if err != nil {
		s.metrics.success.WithLabelValues(t.name).Set(0)
		s.metrics.scrapes.WithLabelValues(t.name, "error").Inc()
		return
	}
	s.metrics.success.WithLabelValues(t.name).Set(1)
	s.metrics.scrapes.WithLabelValues(t.name, "ok").Inc()
}

// missesTarget says that a node is listed by several exporters and one of them
// failed now, so that a GPU may be missing for that reason alone.
func (s *Source) missesTarget(n *nodeView, failed map[*target]bool) bool {
	known := s.targetsOf(n.name)
	maps.Copy(known, n.targets)
	for t := range known {
		if failed[t] {
			return true
		}
	}
	return false
}

// targetsOf is the set of targets that ever had rows of a node.
func (s *Source) targetsOf(node string) map[*target]bool {
	if s.shared[node] == nil {
		s.shared[node] = map[*target]bool{}
	}
	return s.shared[node]
}
