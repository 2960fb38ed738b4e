package ingest

import (
	"context"
	"fmt"
	"time"

	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/wire"
)

// Origins is what operators declared in the decisions: clusters with their slot
// lengths, and runs, without which nobody sends anything that isn't live.
type Origins interface {
	// Refresh reads on to the end of what was declared.
	Refresh(ctx context.Context) error
	// Leave is what was declared about a batch, as far as was read.
	Leave(b decisions.Sent) decisions.Leave
}

// Two ingesters may register a cluster at once: the earliest slot's length
// counts, of two the smaller, for everybody.
const selectClusters = `SELECT cluster, slot_ms FROM slot_lengths`

// slotLength is a cluster's, Unix ms, for what was appended since an instant.
type slotLength struct {
	ms    int64
	since time.Time
}

// clusters are those that are declared: by the configuration, by a decision, or
// by rows of theirs that are stored already.
type clusters struct {
	store  Store
	own    map[string]int64 // of the configuration, ms
	stored map[string]bool  // in the table; nil: not read yet
	known  map[string]slotLength
}

func newClusters(store Store, own map[string]int64) *clusters {
	return &clusters{store: store, own: own, known: map[string]slotLength{}}
}

// load reads the table once. What it says stands, since the ledger counts by it.
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

// register notes the clusters whose first batches are about to be stored.
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

// declared puts to each batch what operators declared about it. Where that
// doesn't cover one, it reads first what they may have declared meanwhile: until
// the decisions can be read the chunk waits, since a batch that is refused once
// and taken the next time would make the ledger depend on when it was read. A
// chunk of live batches of known clusters never waits.
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

// lookUp says whether every batch is covered by what was read.
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
			leave := in.deps.Origins.Leave(sentBy(it))
			if !known && leave.SlotMS > 0 {
				length = slotLength{leave.SlotMS, leave.Since}
				in.clusters.known[it.batch.Cluster] = length
			}
			it.missing = leave.Missing
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
