package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/store"
)

// raw is what the winning batches of a range of slots say of each GPU.
type raw struct {
	gpus map[string]map[string]*series // GPU, then node
	// last is the series that the last row went to: rows come in order of GPU
	// and node.
	last            *series
	lastGPU, lastOn string
	// slab holds rows side by side, those of the last record at its end: a
	// record of a few rows is too small for a piece of memory of its own.
	slab []meter.Row
}

// series is one GPU on one node, ascending by slot.
type series struct{ records []meter.Record }

// slabRows is the length of a slab.
const slabRows = 4096

// part is one of several shares of a cluster's GPUs, by a hash of their ids, or
// one GPU of some nodes.
type part struct {
	number, of uint64
	gpu        string   // empty: all
	nodes      []string // empty: all
}

// whole is all of them.
var whole = part{of: 1}

// args are a part's parameters in statements, beside a cluster and a range.
func (p part) args(cluster string, from, to time.Time) []any {
	return []any{
		store.Named("cluster", cluster), store.Named("from", from), store.Named("to", to), store.Named("part", p.number), store.Named("parts", p.of),
		store.Named("gpu", p.gpu), store.Named("nodes", append([]string{}, p.nodes...)),
	}
}

// holdsResult are the columns of selectHolds.
type holdsResult struct {
	node, gpu, model     *proto.ColLowCardinality[string]
	slot                 proto.ColDateTime
	batch, leaf, owner   proto.ColUInt64
	sliceMS, work        proto.ColUInt64
	slices               proto.ColUInt32
	kind                 proto.ColUInt8
	bucket               proto.ColInt8
	why, energyWhy       proto.ColUInt8
	energy, unattributed proto.ColInt64
	head, tail           proto.ColUInt32
}

func newHoldsResult() *holdsResult {
	return &holdsResult{node: newNames(), gpu: newNames(), model: newNames()}
}

func (h *holdsResult) columns() proto.Results {
	return proto.Results{
		{Name: "node", Data: h.node},
		{Name: "gpu", Data: h.gpu},
		{Name: "slot", Data: &h.slot},
		{Name: "batch", Data: &h.batch},
		{Name: "model", Data: h.model},
		{Name: "slices", Data: &h.slices},
		{Name: "kind", Data: &h.kind},
		{Name: "leaf", Data: &h.leaf},
		{Name: "owner", Data: &h.owner},
		{Name: "bucket", Data: &h.bucket},
		{Name: "why", Data: &h.why},
		{Name: "slice_ms", Data: &h.sliceMS},
		{Name: "work", Data: &h.work},
		{Name: "energy_mj", Data: &h.energy},
		{Name: "unattributed_mj", Data: &h.unattributed},
		{Name: "energy_why", Data: &h.energyWhy},
		{Name: "head", Data: &h.head},
		{Name: "tail", Data: &h.tail},
	}
}

func (h *holdsResult) row(i int) meter.Row {
	return meter.Row{
		Leaf: h.leaf[i], Owner: h.owner[i], Bucket: meter.Bucket(h.bucket[i]), Why: meter.Why(h.why[i]),
		SliceMS: int64(h.sliceMS[i]), Work: int64(h.work[i]), EnergyMJ: h.energy[i], UnattributedMJ: h.unattributed[i],
		EnergyWhy: meter.EnergyWhy(h.energyWhy[i]),
		Head:      meter.Share(h.head[i]), Tail: meter.Share(h.tail[i]),
	}
}

// readRaw reads the winning batches' rows of one part of the GPUs, and counts
// them against what the journal promised.
func (l *Ledger) readRaw(ctx context.Context, c cluster, w *winners, p part, from, to time.Time) (*raw, error) {
	r := &raw{gpus: map[string]map[string]*series{}}
	h := newHoldsResult()
	err := l.deps.Store.Stream(ctx, h.columns(), func(rows int) error {
		for i := range rows {
			if w.met(h.batch[i]) {
				r.add(h, i)
			}
		}
		return nil
	}, selectHolds, p.args(c.Name, from, to)...)
	if err != nil {
		return nil, fmt.Errorf("read raw rows of %s from %s: %w", c.Name, from, err)
	}
	r.sort()
	return r, nil
}

func (r *raw) add(h *holdsResult, i int) {
	s, start := r.seriesOf(h.gpu.Row(i), h.node.Row(i)), h.slot.Row(i).UnixMilli()
	var rows []meter.Row // those of the record already there
	n := len(s.records)
	if n > 0 && s.records[n-1].StartMS == start {
		n--
		rows = s.records[n].Rows
	} else {
		s.records = append(s.records, meter.Record{StartMS: start, Slices: int(h.slices[i]), Kind: meter.Kind(h.kind[i]), Model: h.model.Row(i)})
	}
	s.records[n].Rows = r.extend(rows, h.row(i))
}

// extend appends to a record's rows; where they don't end the slab or it is
// full, they move to a free place.
func (r *raw) extend(rows []meter.Row, row meter.Row) []meter.Row {
	from := len(r.slab) - len(rows)
	ends := len(rows) == 0 || (from >= 0 && &r.slab[from] == &rows[0])
	if !ends || len(r.slab) == cap(r.slab) {
		if len(r.slab)+len(rows) >= cap(r.slab) {
			r.slab = make([]meter.Row, 0, max(slabRows, 2*len(rows)))
		}
		from = len(r.slab)
		r.slab = append(r.slab, rows...)
	}
	r.slab = append(r.slab, row)
	return r.slab[from:len(r.slab):len(r.slab)]
}

func (r *raw) seriesOf(gpu, node string) *series {
	if r.last != nil && r.lastGPU == gpu && r.lastOn == node {
		return r.last
	}
	nodes, ok := r.gpus[gpu]
	if !ok {
		nodes = map[string]*series{}
		r.gpus[gpu] = nodes
	}
	s, ok := nodes[node]
	if !ok {
		s = &series{}
		nodes[node] = s
	}
	r.last, r.lastGPU, r.lastOn = s, gpu, node
	return s
}

// sort brings records into slot order and joins those of one slot: the engine
// delivers its parts side by side.
func (r *raw) sort() {
	for _, nodes := range r.gpus {
		for _, s := range nodes {
			slices.SortStableFunc(s.records, func(a, b meter.Record) int { return int(a.StartMS - b.StartMS) })
			out := s.records[:0]
			for _, rec := range s.records {
				if n := len(out); n > 0 && out[n-1].StartMS == rec.StartMS {
					out[n-1].Rows = append(out[n-1].Rows, rec.Rows...)
					continue
				}
				out = append(out, rec)
			}
			s.records = out
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
