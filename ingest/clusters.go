package ingest

import (
	"context"
	"fmt"
	"time"

	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/wire"
)

// Origins gives what operators declared in the decisions: clusters with their slot
// lengths, and runs. Every batch that isn't live needs a run.
type Origins interface {
	// Refresh reads the declarations up to the newest.
	Refresh(ctx context.Context) error
	// PermissionFor returns the permission that was declared for a batch, as of the last
	// Refresh.
	PermissionFor(b decisions.Sent) decisions.Permission
}

// Two ingesters may register a cluster at once. Then the slot length of the earliest
// slot counts for all, and of two for the same slot the smaller one.
const selectClusters = `SELECT cluster, slot_ms FROM slot_lengths`

// slotLength is a cluster's slot length in ms, valid for messages appended from an
// instant on.
type slotLength struct {
	ms    int64
	since time.Time
}

// clusters knows the declared clusters: those in the configuration, in decisions, or
// with stored rows.
type clusters struct {
	store  Store
	own    map[string]int64 // declared in the configuration, ms
	stored map[string]bool  // with rows in the table; nil: not read yet
	known  map[string]slotLength
}

func newClusters(store Store, own map[string]int64) *clusters {
	return &clusters{store: store, own: own, known: map[string]slotLength{}}
}

// load reads the table once. A stored slot length never changes, because the ledger
// depends on it.
func (c *clusters) load(ctx context.Context) error {
	if c.stored != nil {
		return nil
	}
	var rows []struct {
		Cluster string `ch:"cluster"`
		SlotMS  uint32 `ch:"slot_ms"`
	}
	if err := c.store.Select(ctx, &rows, selectClusters); err != nil {
		return fmt.Errorf("read slot lengths: %w", err)
	}
	c.stored = map[string]bool{}
	for name, ms := range c.own {
		c.known[name] = slotLength{ms: ms}
	}
	for _, r := range rows {
		c.stored[r.Cluster] = true
		c.known[r.Cluster] = slotLength{ms: int64(r.SlotMS), since: c.known[r.Cluster].since}
	}
	return nil
}

// register records the clusters whose first batches are about to be stored.
func (c *clusters) register(ctx context.Context, items []item) error {
	added := map[string]bool{}
	var rows []tables.Cluster
	for i := range items {
		b := items[i].batch
		if items[i].status() == tables.StatusDead || c.stored[b.Cluster] || added[b.Cluster] {
			continue
		}
		added[b.Cluster] = true
		rows = append(rows, tables.Cluster{
			Cluster: b.Cluster, SlotMS: uint32(items[i].slot.ms), Since: slotTime(b.SlotStartMs),
			Simulated: flag(b.Origin == wire.Origin_ORIGIN_SIMULATED),
		})
	}
	if err := tables.Insert(ctx, c.store, "clusters", rows...); err != nil {
		return fmt.Errorf("register clusters: %w", err)
	}
	for cluster := range added {
		c.stored[cluster] = true
	}
	return nil
}

// declared attaches to each batch what operators declared about it. If a batch is not
// covered, it reads the newest declarations first. Until they can be read the chunk
// waits: if a batch were refused now and accepted on a retry, the ledger would depend
// on when it was read. A chunk of live batches of known clusters never waits.
func (in *Ingester) declared(ctx context.Context, items []item) error {
	if err := in.retry(ctx, "clusters", in.clusters.load); err != nil {
		return err
	}
	if in.lookUp(items) {
		return nil
	}
	if err := in.retry(ctx, "decisions", in.deps.Origins.Refresh); err != nil {
		return err
	}
	in.lookUp(items)
	return nil
}

// lookUp reports whether the declarations read so far cover every batch.
func (in *Ingester) lookUp(items []item) (covered bool) {
	covered = true
	for i := range items {
		it := &items[i]
		if it.batch == nil {
			continue
		}
		it.missing = ""
		length, known := in.clusters.known[it.batch.Cluster]
		if !known || !live(it.batch) {
			permission := in.deps.Origins.PermissionFor(sentBy(it))
			if !known && permission.SlotMS > 0 {
				length = slotLength{permission.SlotMS, permission.Since}
				in.clusters.known[it.batch.Cluster] = length
			}
			it.missing = permission.Missing
		}
		it.slot = length
		covered = covered && length.ms > 0 && it.missing == ""
	}
	return covered
}

func sentBy(it *item) decisions.Sent {
	b := it.batch
	return decisions.Sent{
		Cluster: b.Cluster, Collector: b.Collector, Sends: wire.Sends(b), SlotMS: b.SlotMs,
		Start: slotTime(b.SlotStartMs), Appended: it.msg.Time,
	}
}
