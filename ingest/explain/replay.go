package explain

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/gputally/gputally/internal/meter"
)

// replay computes the hour again and again by the rules themselves, with the
// watermark at different instants: what two results differ by is what the
// slots between the two instants add.
type replay struct {
	raw    *raw
	pinned []meter.Sighting // as at the hour's start, with the hour's capacity
	slices int
	kind   meter.Kind
}

// forever is beyond any slot.
const forever = math.MaxInt64

// newReplay computes the whole hour, then holds its capacity fast: an hour cut
// off before its first record doesn't know it yet (R2).
func newReplay(r *raw) (*replay, meter.GPUHour, error) {
	p := &replay{raw: r, pinned: r.sightings}
	whole, err := p.at(r.row.endMS(), forever)
	if err != nil {
		return nil, whole, err
	}
	p.slices, p.kind = whole.Slices, whole.Kind
	p.pinned = slices.Clone(r.sightings)
	for i := range p.pinned {
		if p.pinned[i].LastMS > 0 {
			p.pinned[i].SlicesLast = whole.Slices
		}
	}
	return p, whole, nil
}

// at is the hour as it stands with the watermark at untilMS, from the slots
// that start at or before lastSlotMS. A GPU that isn't present has zeros only.
func (p *replay) at(untilMS, lastSlotMS int64) (meter.GPUHour, error) {
	r := p.raw
	in := meter.HourInput{
		StartMS: r.row.startMS(), WatermarkMS: untilMS, SlotMS: r.slotMS,
		Nodes:      make(map[string][]meter.NodeSlot, len(r.nodes)),
		GPUs:       map[string]map[string][]meter.Record{r.row.GPU: {}},
		Closings:   map[string][]int64{},
		LeafSlices: func(leaf uint64) int { return int(r.leaves[leaf].Slices) },
		OwnerID:    func(owner uint64) string { return r.owners[owner].Owner },
	}
	for _, t := range r.retirements {
		in.Closings[r.row.GPU] = append(in.Closings[r.row.GPU], t.cutMS)
	}
	for node, slots := range r.nodes {
		in.Nodes[node] = slots[:sort.Search(len(slots), func(i int) bool { return slots[i].StartMS > lastSlotMS })]
	}
	for _, of := range []map[string][]meter.Record{r.records, r.fills} {
		for node, records := range of {
			end := sort.Search(len(records), func(i int) bool { return records[i].StartMS > lastSlotMS })
			if end > 0 {
				in.GPUs[r.row.GPU][node] = append(slices.Clone(in.GPUs[r.row.GPU][node]), p.records(records[:end])...)
			}
		}
	}
	got, err := meter.Hour(in, meter.NewInventory(p.pinned))
	if err != nil {
		return meter.GPUHour{}, fmt.Errorf("compute the hour from raw: %w", err)
	}
	for i := range got.GPUs {
		if got.GPUs[i].GPU == r.row.GPU {
			return got.GPUs[i], nil
		}
	}
	return meter.GPUHour{GPU: r.row.GPU, Slices: p.slices, Kind: p.kind}, nil
}

// records gives the hour's capacity to those of its records that tell none: a
// lost GPU's, which count whole.
func (p *replay) records(in []meter.Record) []meter.Record {
	start, end := p.raw.row.startMS(), p.raw.row.startMS()+meter.HourMS
	lacks := func(r meter.Record) bool { return r.Slices == 0 && r.StartMS >= start && r.StartMS < end }
	if p.slices == 0 || !slices.ContainsFunc(in, lacks) {
		return in
	}
	out := slices.Clone(in)
	for i := range out {
		if lacks(out[i]) {
			out[i].Slices, out[i].Kind = p.slices, p.kind
		}
	}
	return out
}

// subtract is what b became a by, owner by owner.
func subtract(a, b meter.GPUHour) meter.GPUHour {
	a.PresentMS -= b.PresentMS
	a.Free -= b.Free
	a.Stranded -= b.Stranded
	a.Unhealthy -= b.Unhealthy
	a.Unobserved -= b.Unobserved
	a.UnobservedAttribution -= b.UnobservedAttribution
	a.PlatformEnergyMJ -= b.PlatformEnergyMJ
	a.UnattributedMJ -= b.UnattributedMJ
	owners := slices.Clone(a.Owners)
	for _, o := range b.Owners {
		i := slices.IndexFunc(owners, func(x meter.OwnerUse) bool { return x.Leaf == o.Leaf && x.Owner == o.Owner })
		if i < 0 {
			owners = append(owners, meter.OwnerUse{Leaf: o.Leaf, Owner: o.Owner})
			i = len(owners) - 1
		}
		x := &owners[i]
		x.Active, x.Idle, x.Unproven, x.Inferred = x.Active-o.Active, x.Idle-o.Idle, x.Unproven-o.Unproven, x.Inferred-o.Inferred
		x.Work, x.EnergyMJ = x.Work-o.Work, x.EnergyMJ-o.EnergyMJ
	}
	a.Owners = slices.DeleteFunc(owners, func(o meter.OwnerUse) bool {
		return o == meter.OwnerUse{Leaf: o.Leaf, Owner: o.Owner}
	})
	return a
}
