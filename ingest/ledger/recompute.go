package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/tenants"
)

// Recomputed is one GPU-hour computed again from raw, piece by piece.
type Recomputed struct {
	SlotMS  int64
	Inputs  uint64              // journal rows and retirements that the hour depends on now
	Gone    bool                // its raw was dropped: the fields below are empty
	Missing []string            // batches with fewer raw rows than the journal says: raw is damaged
	Again   *tables.Usage       // the recomputed row; nil: none
	Parts   []meter.Part        // of Again, by slot
	Nodes   []string            // that list the GPU, or listed it last
	Winning map[uint64]bool     // ids of the batches that count
	Retired []tables.Retirement // of the GPU, by time
	Mapping *tenants.Mapping    // of the row's epoch; nil: not kept
	names   *dictionary
}

// Leaf returns the leaf that a part refers to.
func (r *Recomputed) Leaf(leaf uint64) meter.Leaf {
	row := r.names.leaves[leaf]
	return LeafFacts(&row)
}

// Owner returns the owner that a part or the row refers to, by id and facts; known is
// false if table owners lacks it.
func (r *Recomputed) Owner(owner uint64) (id string, facts meter.Owner, known bool) {
	o, known := r.names.owners[owner]
	return o.id, o.facts, known
}

// ReadOwners reads more owners, for Owner: those of batches that don't count.
func (r *Recomputed) ReadOwners(ctx context.Context, db Store, owners []uint64) error {
	return (&Ledger{deps: Deps{Store: db}, names: r.names}).readNames(ctx, nil, owners)
}

// Differences describes the columns in which the stored row differs from the
// recomputed one.
func (r *Recomputed) Differences(row *tables.UsageHour) []string {
	if r.Again == nil {
		return []string{"the ledger has a row, but recomputing the hour from raw gives none"}
	}
	if r.Mapping == nil && len(r.Again.Tenant) == len(row.Tenant) { // the tenants can't be derived without the mapping
		r.Again.Tenant, r.Again.Project = row.Tenant, row.Project
	}
	return differences(r.Again, &row.Usage)
}

const selectRecomputedNodes = `
SELECT DISTINCT node FROM batches FINAL
WHERE cluster = {cluster:String} AND status = 'stored' AND has(gpus, {gpu:String})
  AND toStartOfHour(slot) >= toStartOfHour({from:DateTime('UTC')}) AND slot >= {from:DateTime('UTC')}
    AND slot < {to:DateTime('UTC')}`

const selectRecomputedRetired = `
SELECT cluster, gpu, at, who, reason FROM retirements FINAL WHERE cluster = {cluster:String}
  AND gpu = {gpu:String} ORDER BY at`

const selectRecomputedInputs = `
SELECT (SELECT count() FROM batches FINAL
        WHERE cluster = {cluster:String} AND status = 'stored' AND slot >= {back:DateTime('UTC')}
          AND slot < {to:DateTime('UTC')})
     + (SELECT count() FROM retirements FINAL
        WHERE cluster = {cluster:String} AND at >= {back:DateTime('UTC')} AND at < {end:DateTime('UTC')}) AS inputs`

// The number of raw rows of each batch of some nodes.
const selectRecomputedFound = `
SELECT batch, toUInt32(count()) AS found FROM holds FINAL
WHERE cluster = {cluster:String} AND node IN {nodes:Array(String)}
  AND toStartOfHour(slot) >= toStartOfHour({from:DateTime('UTC')}) AND slot >= {from:DateTime('UTC')}
    AND slot < {to:DateTime('UTC')}
GROUP BY batch`

// RecomputeHour recomputes the GPU-hour of a row, as of the row's watermark and under the
// row's mapping. It only reads.
func RecomputeHour(ctx context.Context, db Store, row *tables.UsageHour) (*Recomputed, error) {
	l := &Ledger{deps: Deps{Store: db}, names: newDictionary()}
	r := &Recomputed{names: l.names}
	c, err := l.clusterOf(ctx, row.Cluster)
	if err != nil {
		return nil, err
	}
	r.SlotMS = int64(c.SlotMS)
	weeks, err := ReadRawWeeks(ctx, db)
	if err != nil {
		return nil, err
	}
	x := newComputation(c, row.Hour.UnixMilli()+int64(row.UntilMS), []hourState{{start: row.Hour}})
	if err := cmp.Or(l.readNames(ctx, nil, row.Owner), l.recomputedInputs(ctx, x, r)); err != nil {
		return nil, err
	}
	if r.Mapping, err = l.mappingOf(ctx, row.Epoch); err != nil {
		return nil, err
	}
	if r.Gone = weeks.gone(row.Hour); r.Gone {
		return r, nil
	}
	return r, l.recompute(ctx, x, r, row)
}

func (l *Ledger) recompute(ctx context.Context, x *computation, r *Recomputed, row *tables.UsageHour) error {
	p, err := l.partOf(ctx, x, row)
	if err != nil {
		return err
	}
	r.Nodes = p.nodes
	if err := l.readJournal(ctx, x, p); err != nil {
		return err
	}
	if err := l.deps.Store.Select(ctx, &r.Retired, selectRecomputedRetired,
		p.args(x.cluster.Name, x.from, x.to)...); err != nil {
		return fmt.Errorf("read retirements of GPU %s: %w", row.GPU, err)
	}
	rows, err := l.readRaw(ctx, x.cluster, x.winners, p, x.from, x.to)
	if err != nil {
		return err
	}
	if r.Missing, err = l.missingRaw(ctx, x, p); err != nil || len(r.Missing) > 0 {
		return err
	}
	if err := l.learn(ctx, rows); err != nil {
		return err
	}
	r.Winning = make(map[uint64]bool, len(x.winners.expected))
	for id := range x.winners.expected {
		r.Winning[id] = true
	}
	inv, err := l.inventoryAt(ctx, x.cluster, row.Hour, p)
	if err != nil {
		return err
	}
	in := l.input(x, x.hours[0], rows)
	in.Trace = func(gpu string, part meter.Part) {
		if gpu == row.GPU {
			r.Parts = append(r.Parts, part)
		}
	}
	res, err := meter.Hour(in, inv)
	if err != nil {
		return err
	}
	slices.SortStableFunc(r.Parts, func(a, b meter.Part) int { return cmp.Compare(a.StartMS, b.StartMS) })
	mapping := cmp.Or(r.Mapping, new(tenants.Mapping))
	for i := range res.GPUs {
		if g := &res.GPUs[i]; g.GPU == row.GPU {
			r.Again = usageRowOf(row.Hour, g, l.names, mapping)
		}
	}
	return nil
}

func (l *Ledger) clusterOf(ctx context.Context, name string) (cluster, error) {
	all, err := l.clusters(ctx, selectClusters)
	if err != nil {
		return cluster{}, err
	}
	c := clusterNamed(all, name)
	if c.SlotMS == 0 {
		return cluster{}, fmt.Errorf("cluster %q has no slot length in view slot_lengths", name)
	}
	return c, nil
}

func (l *Ledger) recomputedInputs(ctx context.Context, x *computation, r *Recomputed) error {
	var rows []struct {
		Inputs uint64 `ch:"inputs"`
	}
	hour := x.hours[0].start
	if err := l.deps.Store.Select(ctx, &rows, selectRecomputedInputs, store.Named("cluster", x.cluster.Name),
		store.Named("to", x.to),
		store.Named("back", hour.Add(-meter.RetireAfterMS*time.Millisecond)), store.Named("end", hour.Add(time.Hour))); err != nil {
		return fmt.Errorf("count the inputs of hour %s: %w", hour.Format(time.RFC3339), err)
	}
	r.Inputs = rows[0].Inputs
	return nil
}

// mappingOf is the tenant mapping of an epoch, nil if it isn't stored.
func (l *Ledger) mappingOf(ctx context.Context, number uint32) (*tenants.Mapping, error) {
	var all []epoch
	if err := l.deps.Store.Select(ctx, &all, selectEpochs); err != nil {
		return nil, fmt.Errorf("read epochs: %w", err)
	}
	i := slices.IndexFunc(all, func(e epoch) bool { return e.Epoch == number })
	if i < 0 {
		return nil, nil
	}
	return tenants.Parse(fmt.Sprintf("tenants of epoch %d", number), []byte(all[i].Tenants))
}

// partOf selects the row's GPU and the nodes that list it around the hour or listed it
// last.
func (l *Ledger) partOf(ctx context.Context, x *computation, row *tables.UsageHour) (part, error) {
	p := part{of: 1, gpu: row.GPU}
	sightings, err := l.readSightings(ctx, x.cluster, p, row.Hour.Add(-backMS*time.Millisecond), row.Hour)
	if err != nil {
		return p, err
	}
	for _, s := range sightings {
		if s.LastMS > 0 {
			p.nodes = append(p.nodes, s.Node)
		}
	}
	var listing []struct {
		Node string `ch:"node"`
	}
	if err := l.deps.Store.Select(ctx, &listing, selectRecomputedNodes, p.args(x.cluster.Name, x.from, x.to)...); err != nil {
		return p, fmt.Errorf("read the nodes of GPU %s: %w", row.GPU, err)
	}
	for _, n := range listing {
		p.nodes = append(p.nodes, n.Node)
	}
	if len(p.nodes) == 0 {
		return p, errors.New("no node lists the GPU in the hour or in the day before it")
	}
	slices.Sort(p.nodes)
	p.nodes = slices.Compact(p.nodes)
	return p, nil
}

// missingRaw compares the number of raw rows of the GPU's nodes with the journal,
// by batch.
func (l *Ledger) missingRaw(ctx context.Context, x *computation, p part) ([]string, error) {
	var rows []struct {
		Batch uint64 `ch:"batch"`
		Found uint32 `ch:"found"`
	}
	if err := l.deps.Store.Select(ctx, &rows, selectRecomputedFound, p.args(x.cluster.Name, x.from, x.to)...); err != nil {
		return nil, fmt.Errorf("count raw rows: %w", err)
	}
	found := make(map[uint64]uint32, len(rows))
	for _, r := range rows {
		found[r.Batch] = r.Found
	}
	for id, expected := range x.winners.expected {
		expected.found = found[id]
		x.winners.expected[id] = expected
	}
	missing := x.winners.missing()
	slices.Sort(missing)
	return missing, nil
}
