package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/tables"
)

// raw is the raw rows of the winning batches of a range of slots, by GPU.
type raw struct {
	gpus map[string]map[string]*series // GPU, then node
	// last is the series to which the last row was added: rows arrive in order of GPU
	// and node.
	last            *series
	lastGPU, lastOn string
	// slab is memory shared by many records: a record of a few rows is too small for
	// an allocation of its own. The rows of the last record are at its end.
	slab []meter.Row
}

// series is the records of one GPU on one node, ascending by slot.
type series struct{ records []meter.Record }

// slabRows is the capacity of a slab.
const slabRows = 4096

// part selects some of a cluster's GPUs: by a hash of their ids, or one GPU on some
// nodes.
type part struct {
	number, of uint64
	gpu        string   // empty: all
	nodes      []string // empty: all
}

// whole selects all GPUs.
var whole = part{of: 1}

// args returns the part's query parameters, with cluster and range.
func (p part) args(cluster string, from, to time.Time) []any {
	return []any{
		store.Named("cluster", cluster), store.Named("from", from), store.Named("to", to), store.Named("part", p.number),
		store.Named("parts", p.of),
		store.Named("gpu", p.gpu), store.Named("nodes", append([]string{}, p.nodes...)),
	}
}

// holdColumns are the columns of selectHolds, in its order.
var holdColumns = []string{
	"node", "gpu", "slot", "batch", "model", "slices", "kind", "leaf", "owner", "bucket", "why", "slice_ms", "work",
	"energy_mj",
	"unattributed_mj", "energy_why", "head", "tail",
}

// RowOf converts a row of table holds to the row that meter.Classify made.
func RowOf(h *tables.Hold) meter.Row {
	return meter.Row{
		Leaf: h.Leaf, Owner: h.Owner, Bucket: meter.Bucket(h.Bucket), Why: meter.Why(h.Why), SliceMS: int64(h.SliceMS),
		Work: int64(h.Work), EnergyMJ: h.EnergyMJ, UnattributedMJ: h.UnattributedMJ,
		EnergyWhy: meter.EnergyWhy(h.EnergyWhy), Head: meter.Share(h.Head), Tail: meter.Share(h.Tail),
	}
}

// readRaw reads the winning batches' rows for one part of the GPUs, and counts them by
// batch, to be compared with the journal.
func (l *Ledger) readRaw(ctx context.Context, c cluster, w *winners, p part, from, to time.Time) (*raw, error) {
	r := &raw{gpus: map[string]map[string]*series{}}
	block := tables.NewBlock[tables.Hold](holdColumns...)
	err := l.deps.Store.Stream(ctx, block.Results(), func(rows int) error {
		var h tables.Hold
		for i := range rows {
			if block.Row(i, &h); w.met(h.Batch) {
				r.add(&h)
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

func (r *raw) add(h *tables.Hold) {
	s, start := r.seriesOf(h.GPU, h.Node), h.Slot.UnixMilli()
	var rows []meter.Row // rows of the record that exists already
	n := len(s.records)
	if n > 0 && s.records[n-1].StartMS == start {
		n--
		rows = s.records[n].Rows
	} else {
		s.records = append(s.records,
			meter.Record{StartMS: start, Slices: int(h.Slices), Kind: meter.Kind(h.Kind), Model: h.Model})
	}
	s.records[n].Rows = r.extend(rows, RowOf(h))
}

// extend appends to a record's rows. If they aren't the slab's last rows, or the slab
// is full, they are copied to a new slab first.
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

// sort sorts records by slot and joins those of one slot: the engine returns its parts
// in no particular order.
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

func recordStart(r meter.Record) int64 { return r.StartMS }

// around returns those of some slots, ascending, on which one hour depends.
func around[T any](slots []T, slotMS, hourMS int64, startMS func(T) int64) []T {
	compare := func(s T, at int64) int { return int(startMS(s) - at) }
	i, _ := slices.BinarySearchFunc(slots, hourMS-meter.GapMaxMS-slotMS+1, compare)
	j, _ := slices.BinarySearchFunc(slots, hourMS+meter.HourMS+meter.GapMaxMS, compare)
	return slots[i:j]
}
