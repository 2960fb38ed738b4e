package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuledger/gpuledger/internal/meter"
	"github.com/gpuledger/gpuledger/internal/store"
)

// chunkHours is how many hours are read in one statement.
const chunkHours = 24

// result is a chunk of computed hours.
type result struct {
	hours    []hourState
	results  []meter.HourResult
	missing  []string // raw rows that the journal promised and that aren't there
	findings []string
}

// compute reads and computes consecutive hours. It publishes nothing.
func (l *Ledger) compute(ctx context.Context, c cluster, watermarkMS int64, hours []hourState, inv *meter.Inventory) (*result, *dictionary, error) {
	slot := time.Duration(c.SlotMS) * time.Millisecond
	gap := time.Duration(meter.GapMaxMS) * time.Millisecond
	from := hours[0].start.Add(-gap).Truncate(slot)
	to := hours[len(hours)-1].start.Add(time.Hour + gap)
	w, err := l.readWinners(ctx, c, from, to)
	if err != nil {
		return nil, nil, err
	}
	r, err := l.readRaw(ctx, c, w, from, to)
	if err != nil {
		return nil, nil, err
	}
	d, err := l.learn(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	out := &result{hours: hours, missing: r.missing, findings: w.findings}
	if len(out.missing) > 0 {
		return out, d, nil
	}
	for _, h := range hours {
		res, err := meter.Hour(l.input(c, watermarkMS, h, w, r, d), inv)
		if err != nil {
			return nil, nil, err
		}
		out.results = append(out.results, res)
		out.findings = append(out.findings, res.Findings...)
	}
	return out, d, nil
}

func (l *Ledger) input(c cluster, watermarkMS int64, h hourState, w *winners, r *raw, d *dictionary) meter.HourInput {
	start, slotMS := h.start.UnixMilli(), int64(c.SlotMS)
	in := meter.HourInput{
		StartMS: start, WatermarkMS: watermarkMS, SlotMS: slotMS,
		Nodes: make(map[string][]meter.NodeSlot, len(w.nodes)), GPUs: make(map[string]map[string][]meter.Record, len(r.gpus)),
		LeafSlices: d.leafSlices, OwnerID: d.ownerID,
	}
	for node, slots := range w.nodes {
		in.Nodes[node] = slotsAround(slots, slotMS, start)
	}
	for gpu, nodes := range r.gpus {
		for node, records := range nodes {
			if part := around(records, slotMS, start); len(part) > 0 {
				if in.GPUs[gpu] == nil {
					in.GPUs[gpu] = make(map[string][]meter.Record, 1)
				}
				in.GPUs[gpu][node] = part
			}
		}
	}
	return in
}

type sightingRow struct {
	Hour        time.Time `ch:"hour"`
	GPU         string    `ch:"gpu"`
	Node        string    `ch:"node"`
	Model       string    `ch:"model"`
	FirstMS     int64     `ch:"first_ms"`
	LastMS      int64     `ch:"last_ms"`
	RunFromMS   int64     `ch:"run_from_ms"`
	SlicesFirst uint16    `ch:"slices_first"`
	SlicesLast  uint16    `ch:"slices_last"`
}

func (l *Ledger) readSightings(ctx context.Context, c cluster, from, to time.Time) ([]meter.Sighting, error) {
	var rows []sightingRow
	if err := l.deps.Store.Select(ctx, &rows, selectSightings,
		store.Named("cluster", c.Name), store.Named("from", from), store.Named("to", to)); err != nil {
		return nil, fmt.Errorf("read sightings of %s: %w", c.Name, err)
	}
	out := make([]meter.Sighting, len(rows))
	for i, r := range rows {
		out[i] = meter.Sighting{
			HourMS: r.Hour.UnixMilli(), GPU: r.GPU, Node: r.Node, Model: r.Model, FirstMS: r.FirstMS, LastMS: r.LastMS,
			RunFromMS: r.RunFromMS, SlicesFirst: int(r.SlicesFirst), SlicesLast: int(r.SlicesLast),
		}
	}
	return out, nil
}

// inventoryAt is the inventory as an hour begins.
func (l *Ledger) inventoryAt(ctx context.Context, c cluster, hour time.Time) (*meter.Inventory, error) {
	back := time.Duration(meter.RetireAfterMS+meter.HourMS) * time.Millisecond
	sightings, err := l.readSightings(ctx, c, hour.Add(-back), hour)
	if err != nil {
		return nil, err
	}
	return meter.NewInventory(sightings), nil
}
