package meter

import "sort"

// recordsOnly keeps of a fill what its records hold, as unproven: that nobody is
// known to have held the rest doesn't make it free, nor stranded (R18).
func recordsOnly(rows []Row) []Row {
	var out []Row
	for _, r := range rows {
		switch {
		case r.Why == WhyExcess:
			return []Row{{Bucket: Unobserved, Why: WhyExcess}}
		case r.Owner != 0:
			out = append(out, Row{Leaf: r.Leaf, Owner: r.Owner, Bucket: Unproven, Why: WhyRecords, SliceMS: r.SliceMS})
		}
	}
	if len(out) == 0 {
		return []Row{{Bucket: Unobserved, Why: WhyListed}}
	}
	return out
}

// place is the node that has the GPU from an instant on, Unix ms.
type place struct {
	fromMS int64
	node   string
}

// takeFills takes the fills out of what an hour rests on: they open no
// inventory, say nothing of capacity, and are neither side nor obstacle of a
// gap. It answers them by GPU and node.
func (in *HourInput) takeFills() map[string]map[string][]Record {
	isFill := map[string]map[int64]bool{}
	for node, slots := range in.Nodes {
		for i := range slots {
			if slots[i].Fill {
				if isFill[node] == nil {
					isFill[node] = map[int64]bool{}
				}
				isFill[node][slots[i].StartMS] = true
			}
		}
	}
	if len(isFill) == 0 {
		return nil
	}
	nodes, gpus := make(map[string][]NodeSlot, len(in.Nodes)), make(map[string]map[string][]Record, len(in.GPUs))
	fills := map[string]map[string][]Record{}
	for node, slots := range in.Nodes {
		seen := make([]NodeSlot, 0, len(slots))
		for i := range slots {
			if !slots[i].Fill {
				seen = append(seen, slots[i])
			}
		}
		nodes[node] = seen
	}
	for gpu, byNode := range in.GPUs {
		for node, records := range byNode {
			for _, r := range records {
				into := gpus
				if isFill[node][r.StartMS] {
					into = fills
				}
				if into[gpu] == nil {
					into[gpu] = make(map[string][]Record, 1)
				}
				into[gpu][node] = append(into[gpu][node], r)
			}
		}
	}
	in.Nodes, in.GPUs = nodes, gpus
	return fills
}

// fill books what records hold of slots of which nobody has said anything, as
// far as the inventory has the GPU there, and nothing was inferred of it (R10
// comes first: it rests on what was seen).
func (h *gpuHour) fill() {
	inferred := map[int64]bool{} // slots
	for i := range h.inferred {
		inferred[h.inferred[i].startMS] = true
	}
	for node, records := range h.fills {
		for i := range records {
			if r := &records[i]; !inferred[r.StartMS] && h.counts(node, r) {
				for _, row := range r.Rows {
					if row.Bucket == Unproven {
						h.bookAt(node, r.StartMS,
							Row{Leaf: row.Leaf, Owner: row.Owner, Bucket: Unproven, Why: WhyRecords, SliceMS: row.SliceMS})
					}
				}
			}
		}
	}
}

// counts says that a record of a fill counts, if nothing was inferred of its slot.
func (h *gpuHour) counts(node string, r *Record) bool {
	return h.presentAt(r.StartMS) && h.nodeAt(r.StartMS) == node && h.out.Kind == Board && r.Slices <= h.out.Slices
}

// nodeAt is the node that has the GPU in a slot of the hour.
func (h *gpuHour) nodeAt(startMS int64) string {
	n := sort.Search(len(h.places), func(i int) bool { return h.places[i].fromMS > startMS })
	if n == 0 {
		return ""
	}
	return h.places[n-1].node
}
