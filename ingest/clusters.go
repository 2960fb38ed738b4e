package ingest

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/gpuledger/gpuledger/internal/wire"
)

// Two ingesters may register a cluster at once: the earliest slot's length
// counts, of two the smaller, for everybody.
const selectClusters = `SELECT cluster, argMin(c.slot_ms, (c.since, c.slot_ms)) AS slot_ms FROM clusters AS c GROUP BY cluster`

// clusters remembers each cluster's slot length, which the first batch of a
// new cluster declares and everybody keeps to.
type clusters struct {
	store  Store
	slotMS map[string]int64
}

func newClusters(store Store) *clusters { return &clusters{store: store} }

// learn registers the clusters that a chunk brings for the first time.
func (c *clusters) learn(ctx context.Context, items []item) error {
	if c.slotMS == nil {
		if err := c.load(ctx); err != nil {
			return err
		}
	}
	for i := range items {
		b := items[i].batch
		if b == nil || c.slotMS[b.Cluster] != 0 {
			continue
		}
		if err := c.register(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

func (c *clusters) load(ctx context.Context) error {
	var rows []struct {
		Cluster string `ch:"cluster"`
		SlotMS  uint32 `ch:"slot_ms"`
	}
	if err := c.store.Select(ctx, &rows, selectClusters); err != nil {
		return fmt.Errorf("read slot lengths: %w", err)
	}
	c.slotMS = map[string]int64{}
	for _, r := range rows {
		c.slotMS[r.Cluster] = int64(r.SlotMS)
	}
	return nil
}

func (c *clusters) register(ctx context.Context, b *wire.Batch) error {
	length := b.ClusterSlotMs
	if length == 0 {
		length = b.SlotMs
	}
	name, ms, since, simulated := lowCardinality(), new(proto.ColUInt32), new(proto.ColDateTime), new(proto.ColUInt8)
	name.Append(b.Cluster)
	ms.Append(uint32(length))
	since.Append(time.UnixMilli(b.SlotStartMs).UTC())
	simulated.Append(flag(b.Origin == wire.Origin_ORIGIN_SIMULATED))
	if err := c.store.Insert(ctx, "clusters", proto.Input{
		{Name: "cluster", Data: name}, {Name: "slot_ms", Data: ms}, {Name: "since", Data: since}, {Name: "simulated", Data: simulated},
	}); err != nil {
		return fmt.Errorf("register cluster %q: %w", b.Cluster, err)
	}
	return c.load(ctx)
}
