package ledger_test

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/store"
)

// An hour of 500 nodes with eight whole GPUs each, in slots of ten seconds:
// 1,440,000 rows of raw, 180,000 of the journal.
const (
	insertHour = `
INSERT INTO holds (cluster, node, gpu, slot, slot_ms, batch, model, slices, leaf, owner, bucket, slice_ms, rules)
SELECT 'c', concat('node-', toString(intDiv(number, 8 * 360))) AS node, concat('GPU-', toString(intDiv(number, 360))),
       toDateTime('2026-03-02 00:00:00', 'UTC') + 10 * (number % 360) AS slot, 10000, cityHash64(node, slot), 'NVIDIA H100 80GB HBM3', 7, 0, 0, 'free', 70000, 1
FROM numbers(8 * 360 * 500)`
	insertHourJournal = `
INSERT INTO batches (topic, partition, offset, status, cluster, node, slot, slot_ms, collector, rev, batch, hash, attribution_ok, enumeration_complete, observed_ms, hold_rows)
SELECT 'gputally.samples.v1', 0, number, 'stored', 'c', concat('node-', toString(intDiv(number, 360))) AS node,
       toDateTime('2026-03-02 00:00:00', 'UTC') + 10 * (number % 360) AS slot, 10000, 'collector', 1, cityHash64(node, slot), toString(number), 1, 1, 10000, 8
FROM numbers(360 * 500)`
	insertCluster = `INSERT INTO clusters (cluster, slot_ms, since) VALUES ('c', 10000, '2026-03-02 00:00:00')`
)

// heapWatch is a store that looks at the heap at every block that it reads.
type heapWatch struct {
	*store.DB
	peak uint64
}

func (w *heapWatch) look() {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	w.peak = max(w.peak, sample[0].Value.Uint64())
}

func (w *heapWatch) Stream(ctx context.Context, columns proto.Results, onBlock func(rows int) error, sql string, args ...any) error {
	return w.DB.Stream(ctx, columns, func(rows int) error {
		defer w.look()
		return onBlock(rows)
	}, sql, args...)
}

func (w *heapWatch) Insert(ctx context.Context, table string, in proto.Input) error {
	w.look()
	return w.DB.Insert(ctx, table, in)
}

// BenchmarkPeakHeap is what computing one hour of 1.62 million rows takes, by
// the bound: the figures of doc.go.
func BenchmarkPeakHeap(b *testing.B) {
	h := newHouse(b, clock.NewFake(monday.Add(2*time.Hour)))
	h.exec(b, insertHour, insertHourJournal, insertCluster)
	for _, bound := range []uint64{4_000_000, 400_000, 100_000} {
		b.Run(fmt.Sprintf("%d rows at most", bound), func(b *testing.B) {
			w := &heapWatch{DB: h.db}
			for b.Loop() {
				h.exec(b, "TRUNCATE TABLE usage_hourly", "TRUNCATE TABLE sightings")
				l := h.ledger(b, w, bounded(bound))
				runtime.GC()
				if n, err := l.Pass(b.Context()); err != nil || n == 0 {
					b.Fatalf("pass: %d hours, %v", n, err)
				}
			}
			b.ReportMetric(float64(w.peak)/1e6, "peak-MB")
		})
	}
}
