package meter

import "sort"

// recordsOnly keeps the held rows of a fill, as unproven. Its other rows go: that no
// allocation record covers the time doesn't prove that the slices were free or
// stranded (R18).
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

// place is the node that has the GPU from an instant on.
type place struct {
	fromMS int64
	node   string
}

// takeFills removes the fills (batches made from allocation records) from the hour's
// input and returns them by GPU and node. Fills don't prove that a GPU is in the
// inventory, don't set its capacity, and neither bound nor interrupt a gap.
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

// fill adds the time that allocation records hold in slots for which there is no other
// batch, where the inventory has the GPU on the node and nothing was inferred.
// Inference (R10) goes first because it rests on observation.
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
						h.addRowAt(node, r.StartMS,
							Row{Leaf: row.Leaf, Owner: row.Owner, Bucket: Unproven, Why: WhyRecords, SliceMS: row.SliceMS})
					}
				}
			}
		}
	}
}

// counts reports whether a fill's record counts, provided that nothing was inferred
// for its slot.
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
