package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/gpuledger/gpuledger/internal/meter"
	"github.com/gpuledger/gpuledger/internal/store"
)

// raw is what the winning batches of a range of slots say of each GPU.
type raw struct {
	gpus    map[string]map[string][]meter.Record // GPU, then node; ascending by slot
	missing []string                             // batches that don't have the rows that the journal promised
}

// holdsResult are the columns of selectHolds.
type holdsResult struct {
	node, gpu, model     *proto.ColLowCardinality[string]
	slot                 proto.ColDateTime
	batch, leaf, owner   proto.ColUInt64
	sliceMS, work        proto.ColUInt64
	slices               proto.ColUInt16
	bucket               proto.ColInt8
	why                  proto.ColUInt8
	energy, unattributed proto.ColInt64
	head, tail           proto.ColUInt32
}

func newHoldsResult() *holdsResult {
	low := func() *proto.ColLowCardinality[string] { return new(proto.ColStr).LowCardinality() }
	return &holdsResult{node: low(), gpu: low(), model: low()}
}

func (h *holdsResult) columns() proto.Results {
	return proto.Results{
		{Name: "node", Data: h.node},
		{Name: "gpu", Data: h.gpu},
		{Name: "slot", Data: &h.slot},
		{Name: "batch", Data: &h.batch},
		{Name: "model", Data: h.model},
		{Name: "slices", Data: &h.slices},
		{Name: "leaf", Data: &h.leaf},
		{Name: "owner", Data: &h.owner},
		{Name: "bucket", Data: &h.bucket},
		{Name: "why", Data: &h.why},
		{Name: "slice_ms", Data: &h.sliceMS},
		{Name: "work", Data: &h.work},
		{Name: "energy_mj", Data: &h.energy},
		{Name: "unattributed_mj", Data: &h.unattributed},
		{Name: "head", Data: &h.head},
		{Name: "tail", Data: &h.tail},
	}
}

func (h *holdsResult) row(i int) meter.Row {
	return meter.Row{
		Leaf: h.leaf[i], Owner: h.owner[i], Bucket: meter.Bucket(h.bucket[i]), Why: meter.Why(h.why[i]),
		SliceMS: int64(h.sliceMS[i]), Work: int64(h.work[i]), EnergyMJ: h.energy[i], UnattributedMJ: h.unattributed[i],
		Head: meter.Share(h.head[i]), Tail: meter.Share(h.tail[i]),
	}
}

// readRaw reads the rows of the winning batches, and holds them to what the
// journal promised.
func (l *Ledger) readRaw(ctx context.Context, c cluster, w *winners, from, to time.Time) (*raw, error) {
	r := &raw{gpus: map[string]map[string][]meter.Record{}}
	found := make(map[uint64]uint32, len(w.promised))
	h := newHoldsResult()
	err := l.deps.Store.Stream(ctx, h.columns(), func(rows int) error {
		for i := range rows {
			if _, wins := w.promised[h.batch[i]]; wins {
				found[h.batch[i]]++
				r.add(h, i)
			}
		}
		return nil
	}, selectHolds, store.Named("cluster", c.Name), store.Named("from", from), store.Named("to", to))
	if err != nil {
		return nil, fmt.Errorf("read raw rows of %s from %s: %w", c.Name, from, err)
	}
	for id, promised := range w.promised {
		if found[id] != promised {
			r.missing = append(r.missing, fmt.Sprintf("batch %016x has %d of %d rows", id, found[id], promised))
		}
	}
	slices.Sort(r.missing)
	r.sort()
	return r, nil
}

func (r *raw) add(h *holdsResult, i int) {
	gpu, node := h.gpu.Row(i), h.node.Row(i)
	nodes, ok := r.gpus[gpu]
	if !ok {
		nodes = map[string][]meter.Record{}
		r.gpus[gpu] = nodes
	}
	records, start := nodes[node], h.slot.Row(i).UnixMilli()
	if n := len(records); n > 0 && records[n-1].StartMS == start {
		records[n-1].Rows = append(records[n-1].Rows, h.row(i))
		return
	}
	nodes[node] = append(records, meter.Record{StartMS: start, Slices: int(h.slices[i]), Model: h.model.Row(i), Rows: []meter.Row{h.row(i)}})
}

// sort brings records into slot order and joins those of one slot: the engine
// delivers its parts side by side.
func (r *raw) sort() {
	for _, nodes := range r.gpus {
		for node, records := range nodes {
			slices.SortStableFunc(records, func(a, b meter.Record) int { return int(a.StartMS - b.StartMS) })
			out := records[:0]
			for _, rec := range records {
				if n := len(out); n > 0 && out[n-1].StartMS == rec.StartMS {
					out[n-1].Rows = append(out[n-1].Rows, rec.Rows...)
					continue
				}
				out = append(out, rec)
			}
			nodes[node] = out
		}
	}
}

// around cuts the records that one hour depends on.
func around(records []meter.Record, slotMS, hourMS int64) []meter.Record {
	lo, hi := hourMS-meter.GapMaxMS-slotMS, hourMS+meter.HourMS+meter.GapMaxMS
	i, _ := slices.BinarySearchFunc(records, lo, func(r meter.Record, at int64) int { return int(r.StartMS - at) })
	for i < len(records) && records[i].StartMS <= lo {
		i++
	}
	j, _ := slices.BinarySearchFunc(records, hi, func(r meter.Record, at int64) int { return int(r.StartMS - at) })
	return records[i:j]
}

func slotsAround(slots []meter.NodeSlot, slotMS, hourMS int64) []meter.NodeSlot {
	lo, hi := hourMS-meter.GapMaxMS-slotMS, hourMS+meter.HourMS+meter.GapMaxMS
	i, _ := slices.BinarySearchFunc(slots, lo, func(s meter.NodeSlot, at int64) int { return int(s.StartMS - at) })
	for i < len(slots) && slots[i].StartMS <= lo {
		i++
	}
	j, _ := slices.BinarySearchFunc(slots, hi, func(s meter.NodeSlot, at int64) int { return int(s.StartMS - at) })
	return slots[i:j]
}
