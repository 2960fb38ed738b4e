package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/telemetry"
	"github.com/gputally/gputally/internal/tenants"
)

// Store is the part of ClickHouse that the ledger needs.
type Store interface {
	Alter(ctx context.Context, table, commands string, args ...any) error
	PartitionStates(ctx context.Context, table string) (map[string]string, error)
	Insert(ctx context.Context, table string, in proto.Input) error
	Select(ctx context.Context, dest any, sql string, args ...any) error
	Stream(ctx context.Context, columns proto.Results, onBlock func(rows int) error, sql string, args ...any) error
}

// Deps are the dependencies of a Ledger.
type Deps struct {
	Store    Store
	Clock    clock.Clock
	Log      *slog.Logger
	Registry prometheus.Registerer
}

// Ledger maintains usage_hourly.
type Ledger struct {
	cfg     Config
	deps    Deps
	m       *metrics
	own     *tenants.Mapping // in the configured file
	mapping *tenants.Mapping // in force: that of the newest epoch
	started bool             // own has been compared with the newest epoch
	pass    sync.Mutex       // held during a pass
	logged  telemetry.Once[string]
	names   *dictionary
	journal memo[journalHour]
	ledger  memo[ledgerHour]
	// newest is each cluster's watermark at the last pass, Unix ms.
	newest map[string]int64
}

// New reads the tenant mapping and returns a Ledger; Run starts it.
func New(cfg Config, deps Deps) (*Ledger, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	mapping, err := tenants.Load(cfg.TenantsFile)
	if err != nil {
		return nil, err
	}
	return &Ledger{
		cfg: cfg, deps: deps, m: newMetrics(deps.Registry), own: mapping, mapping: mapping,
		logged: telemetry.Once[string]{Most: findingsKept}, names: newDictionary(), newest: map[string]int64{},
	}, nil
}

// Run makes a pass at every interval until ctx ends. A failed pass is tried again: no
// state is kept that could be lost. Most passes look at the days before the watermark;
// the first one, and then one every deepEvery, looks at all hours, for which late data
// may have arrived.
func (l *Ledger) Run(ctx context.Context) error {
	var deep time.Time
	for {
		pass := l.passRecent
		if now := l.deps.Clock.Now(); now.Sub(deep) >= deepEvery {
			pass, deep = l.passAndRetain, now
		}
		if _, err := pass(ctx); err != nil && ctx.Err() == nil {
			deep = time.Time{}
			l.m.errors.Inc()
			l.deps.Log.Error("ledger pass failed, it will be repeated", "error", err)
		}
		if err := clock.Sleep(ctx, l.deps.Clock, l.cfg.Interval); err != nil {
			return nil //nolint:nilerr // ctx ended: a normal stop
		}
	}
}

const (
	deepEvery = 10 * time.Minute
	recent    = 72 * time.Hour
)

// passAndRetain is Pass followed by retention, which only a service applies.
func (l *Ledger) passAndRetain(ctx context.Context) (hours int, err error) {
	hours, err = l.Pass(ctx)
	if err != nil && !Damaged(err) {
		return hours, err
	}
	_, retained := l.Retain(ctx)
	return hours, errors.Join(err, retained)
}

// Refused is the error of a recomputation that found fewer raw rows than the journal
// says (R3). The published rows stay.
type Refused struct {
	Cluster string
	From    time.Time
	Missing []string
}

func (r *Refused) Error() string {
	return fmt.Sprintf("hours of cluster %q from %s were not recomputed, because raw has fewer rows than the journal "+
		"says: %s (batches affected: %d)", r.Cluster, r.From.UTC().Format(time.RFC3339), r.Missing[0], len(r.Missing))
}

// Pass recomputes every dirty hour of every cluster and returns their number. A
// cluster with damaged raw doesn't delay the others.
func (l *Ledger) Pass(ctx context.Context) (hours int, err error) {
	return l.passSince(ctx, func(string) time.Time { return everything })
}

// passRecent recomputes the dirty hours for which data usually arrive.
func (l *Ledger) passRecent(ctx context.Context) (hours int, err error) {
	return l.passSince(ctx, func(cluster string) time.Time {
		newest, ok := l.newest[cluster]
		if !ok || newest == 0 { // no data yet
			return everything
		}
		return time.UnixMilli(newest).UTC().Add(-recent).Truncate(time.Hour)
	})
}

func (l *Ledger) passSince(ctx context.Context, since func(cluster string) time.Time) (hours int, err error) {
	l.pass.Lock()
	defer l.pass.Unlock()
	began := l.deps.Clock.Now()
	clusters, err := l.clusters(ctx, selectClusters)
	if err != nil {
		return 0, err
	}
	epochs, err := l.startEpoch(ctx)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, c := range clusters {
		n, err := l.passCluster(ctx, c, epochs, since(c.Name))
		hours += n
		errs = append(errs, err)
	}
	l.m.pass.Observe(l.deps.Clock.Since(began).Seconds())
	if err := errors.Join(errs...); err != nil {
		return hours, err
	}
	l.m.lastPass.Set(float64(l.deps.Clock.Now().Unix()))
	return hours, nil
}

// insertRows is the number of GPU-hours in one insert. An insert is atomic only up to
// the size of one block.
const insertRows = 100_000

// republish computes a chunk and replaces its rows: sightings first, because a usage
// row without its sightings would never be recomputed from the right inventory. inv is
// the inventory at the chunk's start; nil: it is read. after is the inventory at its
// end; nil: read it again. moved reports that a GPU which two nodes list may have
// moved to another node after the chunk.
func (l *Ledger) republish(ctx context.Context, c cluster, watermarkMS int64, hours []hourState,
	inv *meter.Inventory,
) (after *meter.Inventory, moved bool, err error) {
	res, after, err := l.compute(ctx, c, watermarkMS, hours, inv)
	if err != nil {
		return nil, false, err
	}
	l.report(c, res.findings)
	if len(res.missing) > 0 {
		return nil, false, &Refused{Cluster: c.Name, From: hours[0].start, Missing: res.missing}
	}
	if moved, err = l.addVanished(ctx, c, res); err != nil {
		return nil, false, err
	}
	if err := l.publish(ctx, c, res); err != nil {
		return nil, false, err
	}
	l.m.computed.Add(float64(len(hours)))
	return after, moved, nil
}

// publish writes a chunk's rows, each hour in one insert.
func (l *Ledger) publish(ctx context.Context, c cluster, res *result) error {
	sightings := tables.NewBlock[tables.Sighting]()
	for i, h := range res.hours {
		for s := range res.results[i].Sightings {
			row := sightingRowOf(c.Name, h, &res.results[i].Sightings[s])
			sightings.Add(&row)
		}
	}
	if err := l.deps.Store.Insert(ctx, "sightings", sightings.Input()); err != nil {
		return fmt.Errorf("publish sightings of %s: %w", c.Name, err)
	}
	usage := tables.NewBlock[tables.UsageHour]()
	for i, h := range res.hours {
		gpus := res.results[i].GPUs
		row := tables.UsageHour{
			Cluster: c.Name, UntilMS: h.untilMS, HourRows: uint32(len(gpus)), Epoch: h.epoch,
			Inputs: h.inputs, Version: h.version(),
		}
		for g := range gpus {
			row.Usage = *usageRowOf(h.start, &gpus[g], l.names, l.mapping)
			usage.Add(&row)
		}
		if usage.Rows() < insertRows && i < len(res.hours)-1 {
			continue
		}
		if err := l.deps.Store.Insert(ctx, "usage_hourly", usage.Input()); err != nil {
			return fmt.Errorf("publish usage of %s: %w", c.Name, err)
		}
		usage = tables.NewBlock[tables.UsageHour]()
	}
	return nil
}

// findingsKept bounds the memory of what was logged.
const findingsKept = 10_000

// report logs each finding once, because an open hour is computed again and again.
func (l *Ledger) report(c cluster, findings []string) {
	for _, f := range findings {
		if l.logged.First(c.Name + "/" + f) {
			l.m.findings.Inc()
			l.deps.Log.Warn("batches contradict each other", "cluster", c.Name, "finding", f)
		}
	}
}

// noGPU is the GPU id of the row for an hour without GPUs, such as one whose GPUs
// were all retired. The row has no capacity; it tells every process that the hour was
// computed, and from which inputs.
const noGPU = ""

type ledgerKey struct {
	Hour time.Time `ch:"hour"`
	GPU  string    `ch:"gpu"`
}

// addVanished adds an empty row for every GPU and sighting that the ledger has and the
// recomputation doesn't, and for hours without any GPU. moved is as in republish.
func (l *Ledger) addVanished(ctx context.Context, c cluster, res *result) (moved bool, err error) {
	from, to := res.hours[0].start, res.hours[len(res.hours)-1].start.Add(time.Hour)
	var keys []ledgerKey
	if err := l.deps.Store.Select(ctx, &keys, selectLedgerKeys,
		store.Named("cluster", c.Name), store.Named("from", from), store.Named("to", to)); err != nil {
		return false, fmt.Errorf("read ledger keys of %s: %w", c.Name, err)
	}
	sightings, err := l.readSightings(ctx, c, whole, from, to)
	if err != nil {
		return false, err
	}
	last := len(res.hours) - 1
	moved = runsMoved(res.results[last].Sightings, sightings, res.hours[last].start.UnixMilli())
	at := map[int64]*meter.HourResult{}
	gpus, seen := map[ledgerKey]bool{}, map[sightingKey]bool{}
	for i, h := range res.hours {
		r := &res.results[i]
		at[h.start.UnixMilli()] = r
		for _, g := range r.GPUs {
			gpus[ledgerKey{h.start.UTC(), g.GPU}] = true
		}
		for _, s := range r.Sightings {
			seen[keyOf(s)] = true
		}
	}
	for _, k := range keys {
		if r := at[k.Hour.UnixMilli()]; r != nil && !gpus[ledgerKey{k.Hour.UTC(), k.GPU}] {
			r.GPUs = append(r.GPUs, meter.GPUHour{GPU: k.GPU})
		}
	}
	for _, s := range sightings {
		if r := at[s.HourMS]; r != nil && !seen[keyOf(s)] {
			r.Sightings = append(r.Sightings, meter.Sighting{HourMS: s.HourMS, GPU: s.GPU, Node: s.Node})
		}
	}
	for _, r := range at {
		if len(r.GPUs) == 0 {
			r.GPUs = append(r.GPUs, meter.GPUHour{GPU: noGPU})
		}
	}
	return moved, nil
}

// runsMoved reports whether a GPU that several nodes list in the hour was listed
// differently before: which node has it later depends on whose run began last.
func runsMoved(now, before []meter.Sighting, hourMS int64) bool {
	old, nodes := map[sightingKey]meter.Sighting{}, map[string]int{}
	for _, s := range before {
		old[keyOf(s)] = s
	}
	for _, s := range now {
		nodes[s.GPU]++
	}
	for _, s := range now {
		was, ok := old[sightingKey{s.GPU, s.Node, hourMS}]
		if nodes[s.GPU] > 1 && ok && (was.RunFromMS != s.RunFromMS || was.LastMS != s.LastMS) {
			return true
		}
	}
	return false
}

type sightingKey struct {
	gpu, node string
	hourMS    int64
}

func keyOf(s meter.Sighting) sightingKey { return sightingKey{s.GPU, s.Node, s.HourMS} }
