package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/store"
)

// closings are the instants at which people closed the inventory of a GPU
// (R2), Unix ms, ascending: starts of slots.
type closings map[string][]int64

// readClosings reads the cluster's retirements.
func (l *Ledger) readClosings(ctx context.Context, c cluster) (closings, error) {
	var rows []struct {
		GPU string    `ch:"gpu"`
		At  time.Time `ch:"at"`
	}
	if err := l.deps.Store.Select(ctx, &rows, selectRetirements, store.Named("cluster", c.Name)); err != nil {
		return nil, fmt.Errorf("read retirements of %s: %w", c.Name, err)
	}
	out := closings{}
	for _, r := range rows {
		out[r.GPU] = append(out[r.GPU], slotStart(c, r.At))
	}
	return out, nil
}

// slotStart is where the slot begins that an instant lies in, Unix ms. A
// cluster without slots has no GPU to retire.
func slotStart(c cluster, at time.Time) int64 {
	ms := at.UnixMilli()
	return ms - ms%max(int64(c.SlotMS), 1)
}

// perHour counts the closings by the hour they lie in: they are inputs of it
// and of the day after it, as the journal's rows are.
func (c closings) perHour() map[int64]uint64 {
	n := map[int64]uint64{}
	for _, cuts := range c {
		for _, at := range cuts {
			n[at-at%meter.HourMS]++
		}
	}
	return n
}

// near are those that hours between from and to can depend on.
func (c closings) near(from, to time.Time) closings {
	var out closings
	lo, hi := from.UnixMilli()-backMS, to.UnixMilli()
	for gpu, cuts := range c {
		for _, at := range cuts {
			if at < lo || at >= hi {
				continue
			}
			if out == nil {
				out = closings{}
			}
			out[gpu] = append(out[gpu], at)
		}
	}
	return out
}

// take moves the records of the GPUs with closings from a part to kept.
func (c closings) take(r *raw, kept map[string]map[string]*series) {
	for gpu := range c {
		if nodes, ok := r.gpus[gpu]; ok {
			kept[gpu] = nodes
			delete(r.gpus, gpu)
		}
	}
}

// without leaves out the GPUs with closings.
func (c closings) without(sightings []meter.Sighting) []meter.Sighting {
	if len(c) == 0 {
		return sightings
	}
	return slices.DeleteFunc(sightings, func(s meter.Sighting) bool { return c[s.GPU] != nil })
}

// computeClosings computes the GPUs with closings, one by one, hour by hour.
func (l *Ledger) computeClosings(ctx context.Context, x *computation, kept map[string]map[string]*series) error {
	before, err := l.sightingsOf(ctx, x)
	if err != nil {
		return err
	}
	for gpu, cuts := range x.closings {
		r := &raw{gpus: map[string]map[string]*series{}}
		if nodes := kept[gpu]; nodes != nil {
			r.gpus[gpu] = nodes
		}
		sightings := before[gpu]
		for i, h := range x.hours {
			row, seen, err := l.closingHour(x, h, r, gpu, cuts, sightings)
			if err != nil {
				return err
			}
			if row.PresentMS > 0 {
				x.out.results[i].GPUs = append(x.out.results[i].GPUs, row)
			}
			x.out.results[i].Sightings = append(x.out.results[i].Sightings, seen...)
			sightings = append(sightings, seen...)
		}
	}
	return nil
}

// sightingsOf are those of the GPUs with closings, before the first hour.
func (l *Ledger) sightingsOf(ctx context.Context, x *computation) (map[string][]meter.Sighting, error) {
	out := map[string][]meter.Sighting{}
	first := x.hours[0].start
	for gpus := range slices.Chunk(slices.Sorted(maps.Keys(x.closings)), namesPerQuery) {
		sightings, err := l.selectSightings(ctx, x.cluster, selectGPUSightings, first.Add(-backMS*time.Millisecond), first, store.Named("gpus", gpus))
		if err != nil {
			return nil, err
		}
		for _, s := range sightings {
			out[s.GPU] = append(out[s.GPU], s)
		}
	}
	return out, nil
}

// closingHour computes one hour of a GPU in pieces, from closing to closing:
// each knows nothing of what was listed before it.
func (l *Ledger) closingHour(x *computation, h hourState, r *raw, gpu string, cuts []int64, sightings []meter.Sighting) (meter.GPUHour, []meter.Sighting, error) {
	var sum hourPieces
	start := h.start.UnixMilli()
	edges := append([]int64{0}, cuts...)
	for i, from := range edges {
		to := x.watermarkMS
		if i+1 < len(edges) {
			to = min(to, edges[i+1])
		}
		if from >= start+meter.HourMS || to <= start {
			continue
		}
		in := l.input(x, h, r)
		in.WatermarkMS = to
		cutRecords(in.GPUs, gpu, from, to)
		var known []meter.Sighting
		for _, s := range sightings {
			if s.LastMS > from && from <= start {
				known = append(known, s)
			}
		}
		res, err := meter.Hour(in, meter.NewInventory(known))
		if err != nil {
			return meter.GPUHour{}, nil, err
		}
		sum.add(res)
	}
	return sum.row, sum.sightings, nil
}

// cutRecords leaves only what was listed between two closings.
func cutRecords(gpus map[string]map[string][]meter.Record, gpu string, from, to int64) {
	for node, records := range gpus[gpu] {
		kept := slices.DeleteFunc(slices.Clone(records), func(r meter.Record) bool { return r.StartMS < from || r.StartMS >= to })
		if gpus[gpu][node] = kept; len(kept) == 0 {
			delete(gpus[gpu], node)
		}
	}
	if len(gpus[gpu]) == 0 {
		delete(gpus, gpu)
	}
}
