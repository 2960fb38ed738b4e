package meter

import "slices"

// cover extends the time in which the GPU is present by [from, to), clipped to the
// counted part of the hour and ended by the next retirement.
func (h *gpuHour) cover(from, to int64) {
	for _, at := range h.retirements {
		if at > from {
			to = min(to, at)
			break
		}
	}
	from, to = max(from, h.in.StartMS), min(to, h.endMS)
	if from >= to {
		return
	}
	if n := len(h.present); n > 0 && from <= h.present[n-1].to {
		h.present[n-1].to = max(h.present[n-1].to, to)
		return
	}
	h.present = append(h.present, span{from, to})
}

// closedBefore is the last retirement at or before an instant, Unix ms; 0: none.
func (h *gpuHour) closedBefore(t int64) (last int64) {
	for _, at := range h.retirements {
		if at <= t {
			last = at
		}
	}
	return last
}

// closed applies a retirement at an instant. If the GPU isn't listed again, the hour's
// row keeps the node and model from before it.
func (h *gpuHour) closed(k *known, at int64) {
	if k == h.known && k.node != "" {
		h.out.Node, h.out.Model = k.node, k.model
		if at > h.in.StartMS {
			h.places = append(h.places, place{at, ""})
		}
	}
	k.close(at)
}

// presentAt reports whether the GPU is present; false for instants outside the hour.
func (h *gpuHour) presentAt(t int64) bool {
	return slices.ContainsFunc(h.present, func(p span) bool { return p.contains(t) })
}

func (h *gpuHour) sight(nodes []string, start int64) {
	for _, node := range nodes {
		r := h.record(node, start)
		if r.Model != "" {
			h.known.model = r.Model
		}
		i, ok := h.sighted[node]
		if !ok {
			if h.sighted == nil {
				h.sighted = map[string]int{}
			}
			i = len(h.sightings)
			h.sighted[node] = i
			h.sightings = append(h.sightings, Sighting{HourMS: h.in.StartMS, GPU: h.gpu, Node: node, FirstMS: start})
		}
		s := &h.sightings[i]
		s.LastMS, s.RunFromMS, s.Model = start+h.in.SlotMS, h.known.runs[node].fromMS, h.known.model
		s.KindLast = r.Kind
		if r.Slices > 0 {
			s.SlicesLast = r.Slices
		}
	}
}
