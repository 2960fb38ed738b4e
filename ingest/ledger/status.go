package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/gputally/gputally/internal/store"
)

// Watermark is the event time up to which a cluster has been computed, with the hours
// that are still dirty.
type Watermark struct {
	Cluster     string
	SlotMS      int64
	WatermarkMS int64
	Hours       int
	DirtyHours  int
	ClosedUntil time.Time // end of the closed hours (R3); zero: none
	StaleHours  int       // hours whose raw was dropped and whose rows would change if they were recomputed
	LateBatches uint64    // batches kept in late_unprocessed
}

// Status returns how far the ledger is, by cluster. It only reads.
func (l *Ledger) Status(ctx context.Context) ([]Watermark, error) {
	l.pass.Lock()
	defer l.pass.Unlock()
	looks, err := l.lookAtAll(ctx, selectClusters)
	if err != nil {
		return nil, err
	}
	var out []Watermark
	for _, k := range looks {
		var late []struct {
			Batches uint64 `ch:"batches"`
		}
		if err := l.deps.Store.Select(ctx, &late, selectLate, store.Named("cluster", k.Name)); err != nil {
			return nil, fmt.Errorf("count late batches of %s: %w", k.Name, err)
		}
		out = append(out, Watermark{
			Cluster: k.Name, SlotMS: int64(k.SlotMS), WatermarkMS: k.watermarkMS, Hours: len(k.hours),
			DirtyHours: len(k.dirty()), ClosedUntil: k.closedUntil(l.deps.Clock.Now(), l.cfg.CloseAfter),
			StaleHours: len(k.stale()), LateBatches: late[0].Batches,
		})
	}
	return out, nil
}

// ClosedUntil is the end of the closed hours of each cluster that has any hours (R3):
// earlier time can be finalised. The zero time: none is closed yet. A cluster that is
// missing has nothing to wait for, and one that has sent nothing for close_after is
// closed up to close_after before now. Messages that wait in the topic while ingest is
// down are not considered.
func (l *Ledger) ClosedUntil(ctx context.Context) (map[string]time.Time, error) {
	l.pass.Lock()
	defer l.pass.Unlock()
	looks, err := l.lookAtAll(ctx, selectAllClusters)
	if err != nil {
		return nil, err
	}
	out := make(map[string]time.Time, len(looks))
	for _, k := range looks {
		if len(k.hours) > 0 {
			out[k.Name] = k.closedUntil(l.deps.Clock.Now(), l.cfg.CloseAfter)
		}
	}
	return out, nil
}
