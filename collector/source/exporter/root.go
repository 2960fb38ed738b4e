package exporter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/collector/source/gpustate"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/config"
	"github.com/gputally/gputally/internal/telemetry"
	"github.com/gputally/gputally/internal/wire"
)

// parallelScrapes bounds the number of concurrent scrapes, each with a buffer of maxLineBytes.
const parallelScrapes = 256

// Deps are a Source's dependencies. HTTPClient may be nil.
type Deps struct {
	Cluster    string
	HTTPClient *http.Client
	// StateFile stores counters and health flags across restarts (R9, R16); empty: they are lost at the end of the
	// process. Its directory must exist.
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
	memory  *gpustate.Keeper
	shared  map[listing]time.Time   // when a target last had rows of a node
	guessed telemetry.Once[string]  // UUIDs whose inferred MIG mode was logged
	models  map[string]bool         // in metrics
	named   telemetry.Once[warning] // what was logged of values that are absent
}

var (
	_ source.Source    = (*Source)(nil)
	_ source.Committer = (*Source)(nil)
)

// target is one exporter.
type target struct {
	url  string
	name string // without a password, for display and metrics
	node string // of its rows
	// trusts: the Hostname label of its rows is the node.
	trusts            bool
	maxNodes, maxGPUs int
	slow              bool // the last scrape failed: it is scraped after the others
	// silentOnMIG: its missing rows have no meaning for MIG (see learnTargets).
	silentOnMIG bool
	unclear     bool // the last exposition had unknown names or units
}

// New returns a source that scrapes nothing until Read.
func New(cfg Config, deps Deps) (*Source, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure exporter source: %w", err)
	}
	if deps.Cluster == "" {
		return nil, errors.New("configure exporter source: cluster is empty")
	}
	deps.HTTPClient = NoRedirects(deps.HTTPClient)
	s := newSource(cfg, deps)
	for _, t := range cfg.Targets {
		u, err := config.HTTPURL(t.URL)
		if err != nil {
			return nil, fmt.Errorf("configure exporter source: url %q: %w", config.Redacted(t.URL), err)
		}
		s.targets = append(s.targets, &target{
			url: t.URL, name: config.Redacted(t.URL), node: cmp.Or(t.Node, u.Hostname()), trusts: t.TrustHostname,
			maxNodes: cmp.Or(t.MaxNodes, DefaultMaxNodes), maxGPUs: cmp.Or(t.MaxGPUs, DefaultMaxGPUs),
		})
	}
	return s, nil
}

// reading are the samples of one target, or its error.
type reading struct {
	target  *target
	at      time.Time // of samples without a time
	samples []Sample
	// renamed: the scraper is known to have renamed the exporter's own labels, even if these rows don't show it.
	renamed bool
	// generation is the exposition's version.
	generation field.Generation
	distrusted map[string]bool // names whose HELP texts have another unit
	unknown    []string        // names that look like needed ones
	err        error
}

// errAway is the error of a target that is missing in stored samples.
var errAway = errors.New("has no rows in this slot")

// newSource returns a source without targets.
func newSource(cfg Config, deps Deps) *Source {
	m := newMetrics(deps.Registry)
	return &Source{
		cfg: cfg, deps: deps, metrics: m,
		memory: &gpustate.Keeper{
			GPUs: gpustate.New(deps.Log), File: gpustate.File{Path: deps.StateFile, Kind: stateKind},
			Cluster: deps.Cluster, Log: deps.Log, Failed: m.stateFails,
		},
		shared: map[listing]time.Time{}, models: map[string]bool{},
		guessed: telemetry.Once[string]{Most: maxNamed}, named: telemetry.Once[warning]{Most: maxNamed},
	}
}

// Read scrapes every exporter once; the readings count for the whole slot. Errors name the exporter, or the GPU that
// had to be left out. The state file is written before it returns: a crash before the batches are spooled loses the
// slot with its energy, but counts no energy twice.
func (s *Source) Read(ctx context.Context, slot source.Slot) ([]*wire.Batch, error) {
	s.restore()
	readings := s.scrapeAll(ctx, slot)
	if errors.Is(ctx.Err(), context.Canceled) {
		// A cancelled reading is discarded: the next one covers its time.
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

// batches makes a batch of each node of which the readings have rows. A reading without any has failed.
func (s *Source) batches(slot source.Slot, readings []reading) ([]*wire.Batch, error) {
	nodes, failed := map[string]*nodeView{}, map[*target]bool{}
	var errs []error
	for i := range readings {
		r := &readings[i]
		r.target.unclear = false
		if r.err == nil && s.fold(r, nodes) == 0 {
			r.err = errors.New("no GPU rows: the exporter answers, but has no data of DCGM; see the exporter's log")
		}
		if r.err == nil {
			continue
		}
		failed[r.target] = true
		if !errors.Is(r.err, errAway) {
			errs = append(errs, fmt.Errorf("scrape %s: %w", r.target.name, r.err))
		}
	}
	for i := range readings {
		s.nameUnknown(&readings[i])
	}
	batches := make([]*wire.Batch, 0, len(nodes))
	s.mergeUnits(nodes)
	learnTargets(nodes)
	s.learnListings(nodes, failed, slot.Start)
	s.metrics.inferred.Set(0)
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		batch, err := s.batch(nodes[name], slot)
		if s.missesTarget(name, failed) {
			batch.Enumeration = wire.Enumeration_ENUMERATION_PARTIAL
		}
		batches = append(batches, batch)
		errs = append(errs, err)
	}
	return batches, errors.Join(errs...)
}

// Commit records that the batches of the last Read are spooled.
func (s *Source) Commit() { s.memory.Commit() }

// scrapeAll returns the readings in the order of the targets. Targets that failed the last time are scraped after the
// others, so that they delay only each other; all scrapes end after four fifths of the slot.
func (s *Source) scrapeAll(ctx context.Context, slot source.Slot) []reading {
	ctx, cancel := context.WithTimeout(ctx, slot.Length*4/5)
	defer cancel()
	readings := make([]reading, len(s.targets))
	gate := make(chan struct{}, parallelScrapes)
	maxHeld := min(mostHeldBytes, max(leastHeldBytes, heldBytes/len(s.targets)))
	var wg sync.WaitGroup
	for _, slow := range []bool{false, true} {
		for i, t := range s.targets {
			if t.slow != slow {
				continue
			}
			gate <- struct{}{}
			wg.Go(func() {
				defer func() { <-gate }()
				ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
				defer cancel()
				readings[i].target = t
				s.scrape(ctx, &readings[i], maxHeld)
			})
		}
	}
	wg.Wait()
	return readings
}

func (s *Source) scrape(ctx context.Context, r *reading, maxHeld int) {
	start, name := s.deps.Clock.Now(), r.target.name
	defer func() { s.metrics.duration.WithLabelValues(name).Set(s.deps.Clock.Since(start).Seconds()) }()
	series, err := r.fetch(ctx, s.deps.HTTPClient, s.cfg.BodyLimitBytes, maxHeld)
	s.metrics.series.WithLabelValues(name).Set(float64(series))
	if err != nil {
		*r = reading{target: r.target, err: err}
	}
}

func (s *Source) countScrape(t *target, err error) {
	t.slow = err != nil
	if err != nil {
		s.metrics.success.WithLabelValues(t.name).Set(0)
		s.metrics.scrapes.WithLabelValues(t.name, "error").Inc()
		return
	}
	s.metrics.success.WithLabelValues(t.name).Set(1)
	s.metrics.scrapes.WithLabelValues(t.name, "ok").Inc()
}

// listing is a node of which a target had rows.
type listing struct {
	node   string
	target *target
}

// learnListings records which targets list which nodes now. A listing ends when its target answers for ForgetAfter
// without rows of the node, and earlier if the target lists more nodes than maxListings over time.
func (s *Source) learnListings(nodes map[string]*nodeView, failed map[*target]bool, now time.Time) {
	for _, n := range nodes {
		for t := range n.targets {
			s.shared[listing{n.name, t}] = now
		}
	}
	count := map[*target]int{}
	for l := range s.shared {
		count[l.target]++
	}
	maps.DeleteFunc(s.shared, func(l listing, seen time.Time) bool {
		age := now.Sub(seen)
		return !failed[l.target] && (age > gpustate.ForgetAfter || (count[l.target] > maxListings && age > 0))
	})
}

// maxListings bounds the nodes kept for a target: more than an exporter serves, but fewer than one can report that
// invents new ones in each slot.
const maxListings = 1024

// missesTarget returns whether a node is listed by several exporters of which one failed now, so that a GPU may be
// missing for that reason.
func (s *Source) missesTarget(node string, failed map[*target]bool) bool {
	for t := range failed {
		if _, listed := s.shared[listing{node, t}]; listed {
			return true
		}
	}
	return false
}
