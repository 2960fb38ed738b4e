package imports

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/wire"
)

// live is a cluster with collectors: records fill the time that these missed (R18).
type live struct {
	slotMS int64
	why    string // the reason given for records without a GPU id

	untilMS int64                // the ledger's watermark, Unix ms
	gaps    map[string][]*gap    // by node, ascending
	moved   map[string][]listing // by GPU: where and when it was listed
	retired map[string][]int64   // by GPU: Unix ms
}

// gap is a time of a node without batches, between two batches.
type gap struct {
	interval
	batch   uint64             // the last batch before it
	targets map[string]*target // by the names that records may use
}

// target is a leaf that a record can name, as in the last batch before the gap.
type target struct {
	gpu  *wire.Gpu // without leaves and holds
	leaf *wire.Leaf
	why  string // why it can't be filled; empty: it can
}

type listing struct {
	node    string
	firstMS int64
}

// Ranges of slots without a batch of a collector, with the batches before and after
// them; after_ms 0: none.
//
//go:embed live_gaps.sql
var selectLiveGaps string

const selectWatermark = `
SELECT toInt64(max(toInt64(toUnixTimestamp(hour)) * 1000 + until_ms)) AS until FROM usage_hourly FINAL WHERE cluster = {cluster:String}`

// The leaves of one batch.
const selectLayout = `
SELECT DISTINCT toString(h.gpu) AS gpu, toString(h.model) AS model, toUInt32(h.slices) AS slices,
  toUInt8(h.kind) AS kind, h.leaf AS leaf
FROM holds AS h FINAL
WHERE cluster = {cluster:String} AND node = {node:String} AND batch = {batch:UInt64}
  AND toStartOfHour(slot) = toStartOfHour({slot:DateTime('UTC')}) AND slot = {slot:DateTime('UTC')}
ORDER BY gpu, leaf`

const selectLeaves = `
SELECT id, leaf, slices, profile, gi, ci, mig_uuid FROM leaves FINAL WHERE id IN {ids:Array(UInt64)}`

const selectListings = `
SELECT toString(gpu) AS gpu, toString(node) AS node, first_ms FROM sightings FINAL
WHERE cluster = {cluster:String} AND gpu IN {gpus:Array(String)} AND first_ms > 0
  AND hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')}
ORDER BY gpu, first_ms`

const selectRetired = `
SELECT gpu, toUnixTimestamp64Milli(at) AS at_ms FROM retirements FINAL
WHERE cluster = {cluster:String} AND gpu IN {gpus:Array(String)} ORDER BY gpu, at_ms`

// namesPerQuery keeps a query's parameters, which are sent in the URL, short.
const namesPerQuery = 500

// slotsPerQuery bounds what one query groups, to some 100 MB.
const slotsPerQuery = 1_000_000

// inventoryReach is how long before a gap a GPU may have been listed last and still be
// in the inventory (R2).
const inventoryReach = meter.RetireAfterMS + meter.HourMS

// lookAt reads what the ledger has of the nodes that the records name.
func (p *Plan) lookAt(ctx context.Context, db Store) error {
	l := p.live
	nodes := p.nodes()
	if len(p.hours) == 0 || len(nodes) == 0 {
		return nil
	}
	from, to := p.hours[0]-inventoryReach, p.hours[len(p.hours)-1]+meter.HourMS
	l.gaps, l.moved, l.retired = map[string][]*gap{}, map[string][]listing{}, map[string][]int64{}
	var mark []struct {
		Until int64 `ch:"until"`
	}
	if err := db.Select(ctx, &mark, selectWatermark, store.Named("cluster", p.o.Cluster)); err != nil {
		return fmt.Errorf("read watermark of %s: %w", p.o.Cluster, err)
	}
	l.untilMS = mark[0].Until
	perQuery := min(max(slotsPerQuery/((to-from)/l.slotMS), 1), namesPerQuery)
	for names := range slices.Chunk(nodes, int(perQuery)) {
		if err := p.readGaps(ctx, db, names, from, to); err != nil {
			return err
		}
	}
	if err := p.readLayouts(ctx, db); err != nil {
		return err
	}
	gpus := map[string]bool{}
	for _, gaps := range l.gaps {
		for _, g := range gaps {
			for _, t := range g.targets {
				gpus[t.gpu.Uuid] = true
			}
		}
	}
	for names := range slices.Chunk(slices.Sorted(maps.Keys(gpus)), namesPerQuery) {
		if err := p.readInventory(ctx, db, names, from, to); err != nil {
			return err
		}
	}
	return nil
}

func utc(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func (p *Plan) readGaps(ctx context.Context, db Store, nodes []string, fromMS, toMS int64) error {
	l := p.live
	var rows []struct {
		Node  string `ch:"node"`
		At    int64  `ch:"at_ms"`
		After int64  `ch:"after_ms"`
		Batch uint64 `ch:"batch"`
	}
	if err := db.Select(ctx, &rows, selectLiveGaps, store.Named("cluster", p.o.Cluster), store.Named("nodes", nodes),
		store.Named("fill", uint64(wire.FillRev)),
		store.Named("from", utc(fromMS)), store.Named("to", utc(toMS)), store.Named("length", l.slotMS)); err != nil {
		return fmt.Errorf("read gaps of %s: %w", p.o.Cluster, err)
	}
	for _, r := range rows {
		g := &gap{interval: interval{r.At + l.slotMS, cmp.Or(r.After, toMS)}, batch: r.Batch, targets: map[string]*target{}}
		g.to = min(g.to, l.untilMS-l.untilMS%l.slotMS)
		if g.from < g.to {
			l.gaps[r.Node] = append(l.gaps[r.Node], g)
		}
	}
	return nil
}

// readLayouts reads the leaves before each gap that overlaps a record.
func (p *Plan) readLayouts(ctx context.Context, db Store) error {
	for _, u := range p.units {
		for i := range u.uses {
			for _, g := range p.live.within(u.node, u.uses[i].interval) {
				if len(g.targets) > 0 || !p.covers(g.interval) {
					continue
				}
				if err := p.readLayout(ctx, db, u.node, g); err != nil {
					return fmt.Errorf("read layout of node %q before %s: %w", u.node, rfc3339(g.from), err)
				}
			}
		}
	}
	return nil
}

// covers reports whether an interval overlaps the run's hours.
func (p *Plan) covers(t interval) bool {
	i, _ := slices.BinarySearch(p.hours, t.from-meter.HourMS+1)
	return i < len(p.hours) && p.hours[i] < t.to
}

type layoutRow struct {
	GPU    string `ch:"gpu"`
	Model  string `ch:"model"`
	Slices uint32 `ch:"slices"`
	Kind   uint8  `ch:"kind"`
	Leaf   uint64 `ch:"leaf"`
}

func (p *Plan) readLayout(ctx context.Context, db Store, node string, g *gap) error {
	var rows []layoutRow
	if err := db.Select(ctx, &rows, selectLayout, store.Named("cluster", p.o.Cluster), store.Named("node", node),
		store.Named("batch", g.batch), store.Named("slot", utc(g.from-p.live.slotMS))); err != nil {
		return err
	}
	var ids []uint64
	for _, r := range rows {
		ids = append(ids, r.Leaf)
	}
	leaves := map[uint64]tables.Leaf{}
	for part := range slices.Chunk(ids, namesPerQuery) {
		var named []tables.Leaf
		if err := db.Select(ctx, &named, selectLeaves, store.Named("ids", part)); err != nil {
			return err
		}
		for _, l := range named {
			leaves[l.ID] = l
		}
	}
	g.lay(rows, leaves)
	return nil
}

// readInventory reads what ends a GPU's time on a node: listings by another node
// (R14), and retirements (R2).
func (p *Plan) readInventory(ctx context.Context, db Store, gpus []string, fromMS, toMS int64) error {
	l := p.live
	var seen []struct {
		GPU   string `ch:"gpu"`
		Node  string `ch:"node"`
		First int64  `ch:"first_ms"`
	}
	if err := db.Select(ctx, &seen, selectListings, store.Named("cluster", p.o.Cluster), store.Named("gpus", gpus),
		store.Named("from", utc(fromMS)), store.Named("to", utc(toMS))); err != nil {
		return fmt.Errorf("read sightings of %s: %w", p.o.Cluster, err)
	}
	for _, s := range seen {
		l.moved[s.GPU] = append(l.moved[s.GPU], listing{s.Node, s.First})
	}
	var retired []struct {
		GPU string `ch:"gpu"`
		At  int64  `ch:"at_ms"`
	}
	if err := db.Select(ctx, &retired, selectRetired, store.Named("cluster", p.o.Cluster),
		store.Named("gpus", gpus)); err != nil {
		return fmt.Errorf("read retirements of %s: %w", p.o.Cluster, err)
	}
	for _, r := range retired {
		l.retired[r.GPU] = append(l.retired[r.GPU], r.At-r.At%l.slotMS)
	}
	return nil
}
