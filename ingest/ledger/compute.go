package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/tables"
)

// result is the outcome of computing a chunk of hours.
type result struct {
	hours    []hourState
	results  []meter.HourResult
	missing  []string // batches with fewer raw rows than the journal says
	findings []string
}

// computation is a chunk of hours being computed, one part of the GPUs at a time.
type computation struct {
	cluster     cluster
	watermarkMS int64
	hours       []hourState
	from, to    time.Time // range of the slots that the hours depend on
	winners     *winners
	retirements retirements
	out         *result
}

// compute reads and computes consecutive hours, without publishing. inv is the
// inventory at their start; nil: compute reads it. after is the inventory at their
// end, or nil if the GPUs were computed in several parts.
func (l *Ledger) compute(ctx context.Context, c cluster, watermarkMS int64, hours []hourState,
	inv *meter.Inventory,
) (out *result, after *meter.Inventory, err error) {
	x := newComputation(c, watermarkMS, hours)
	if end := time.UnixMilli(watermarkMS).UTC(); c.ahead && end.Before(x.to) {
		x.to = end
	}
	if err := l.readJournal(ctx, x, whole); err != nil {
		return nil, nil, err
	}
	l.names.bound()
	return l.computeParts(ctx, x, inv)
}

func newComputation(c cluster, watermarkMS int64, hours []hourState) *computation {
	slot, gap := time.Duration(c.SlotMS)*time.Millisecond, time.Duration(meter.GapMaxMS)*time.Millisecond
	return &computation{
		cluster: c, watermarkMS: watermarkMS, hours: hours,
		from: hours[0].start.Add(-gap).Truncate(slot), to: hours[len(hours)-1].start.Add(time.Hour + gap),
		out: &result{hours: hours, results: make([]meter.HourResult, len(hours))},
	}
}

// readJournal reads the batches that count, and the retirements.
func (l *Ledger) readJournal(ctx context.Context, x *computation, p part) (err error) {
	if x.winners, err = l.readWinners(ctx, x.cluster, p, x.from, x.to); err != nil {
		return err
	}
	all, err := l.readRetirements(ctx, x.cluster)
	x.retirements = all.near(x.from, x.to)
	return err
}

// computeParts is compute once the journal has been read.
func (l *Ledger) computeParts(ctx context.Context, x *computation,
	inv *meter.Inventory,
) (out *result, after *meter.Inventory, err error) {
	parts := partsOf(x.hours, l.cfg.MaxRowsInMemory)
	var damage error // reported only if no rows are missing, which would be its cause
	for number := range parts {
		p := part{number: number, of: parts}
		if parts > 1 || inv == nil {
			if inv, err = l.inventoryAt(ctx, x.cluster, x.hours[0].start, p); err != nil {
				return nil, nil, err
			}
		}
		err := l.computePart(ctx, x, p, inv)
		if err != nil && !unbalanced(err) {
			return nil, nil, err
		}
		damage = cmp.Or(damage, err)
	}
	if x.out.missing = x.winners.missing(); len(x.out.missing) > 0 {
		slices.Sort(x.out.missing)
		return x.out, nil, nil
	}
	x.collect()
	if parts > 1 {
		inv = nil
	}
	return x.out, inv, damage
}

func unbalanced(err error) bool {
	var u *meter.UnbalancedError
	return errors.As(err, &u)
}

// partsOf is the number of parts into which the GPUs of a chunk are split, so that the
// raw rows of one part are about maxRows.
func partsOf(hours []hourState, maxRows uint64) uint64 {
	var rows uint64
	for _, h := range hours {
		rows += h.rows
	}
	return max(1, (rows+maxRows-1)/maxRows)
}

// computePart reads one part of the GPUs and computes all hours for it.
func (l *Ledger) computePart(ctx context.Context, x *computation, p part, inv *meter.Inventory) error {
	r, err := l.readRaw(ctx, x.cluster, x.winners, p, x.from, x.to)
	if err != nil {
		return err
	}
	if err := l.learn(ctx, r); err != nil {
		return err
	}
	for i, h := range x.hours {
		res, err := meter.Hour(l.input(x, h, r), inv)
		if err != nil {
			return err
		}
		all := &x.out.results[i]
		all.UntilMS = res.UntilMS
		all.GPUs = append(all.GPUs, res.GPUs...)
		all.Sightings = append(all.Sightings, res.Sightings...)
		all.Findings = append(all.Findings, res.Findings...)
	}
	return nil
}

// collect sorts the results of all parts into the order that a single part would give.
func (x *computation) collect() {
	x.out.findings = x.winners.findings
	for i := range x.out.results {
		r := &x.out.results[i]
		slices.SortStableFunc(r.GPUs, func(a, b meter.GPUHour) int { return cmp.Compare(a.GPU, b.GPU) })
		slices.SortStableFunc(r.Sightings, func(a, b meter.Sighting) int { return cmp.Compare(a.GPU, b.GPU) })
		slices.Sort(r.Findings)
		x.out.findings = append(x.out.findings, r.Findings...)
	}
}

func (l *Ledger) input(x *computation, h hourState, r *raw) meter.HourInput {
	start, slotMS := h.start.UnixMilli(), int64(x.cluster.SlotMS)
	in := meter.HourInput{
		StartMS: start, WatermarkMS: x.watermarkMS, SlotMS: slotMS,
		Nodes:       make(map[string][]meter.NodeSlot, len(x.winners.nodes)),
		GPUs:        make(map[string]map[string][]meter.Record, len(r.gpus)),
		Retirements: x.retirements, LeafSlices: l.names.leafSlices, OwnerID: l.names.ownerID,
	}
	for node, slots := range x.winners.nodes {
		in.Nodes[node] = around(slots, slotMS, start, func(s meter.NodeSlot) int64 { return s.StartMS })
	}
	for gpu, nodes := range r.gpus {
		for node, s := range nodes {
			if near := around(s.records, slotMS, start, recordStart); len(near) > 0 {
				if in.GPUs[gpu] == nil {
					in.GPUs[gpu] = make(map[string][]meter.Record, 1)
				}
				in.GPUs[gpu][node] = near
			}
		}
	}
	return in
}

func (l *Ledger) readSightings(ctx context.Context, c cluster, p part, from, to time.Time) ([]meter.Sighting, error) {
	var rows []tables.Sighting
	if err := l.deps.Store.Select(ctx, &rows, selectSightings, p.args(c.Name, from, to)...); err != nil {
		return nil, fmt.Errorf("read sightings of %s: %w", c.Name, err)
	}
	out := make([]meter.Sighting, len(rows))
	for i := range rows {
		out[i] = sightingOf(&rows[i])
	}
	return out, nil
}

// inventoryAt is the inventory of one part of the GPUs at the start of an hour.
func (l *Ledger) inventoryAt(ctx context.Context, c cluster, hour time.Time, p part) (*meter.Inventory, error) {
	sightings, err := l.readSightings(ctx, c, p, hour.Add(-backMS*time.Millisecond), hour)
	if err != nil {
		return nil, err
	}
	return meter.NewInventory(sightings), nil
}
