package meter

// capacity is a GPU's size in one hour: the number of slices and their kind. Zero
// slices: unknown.
type capacity struct {
	slices int
	kind   Kind
}

// capacity sets the hour's capacity: that of its first record, else of the last record
// before it. It keeps the capacity for the next hour.
func (h *gpuHour) capacity() {
	if began := h.firstCapacity(h.in.StartMS, h.endMS); began.slices > 0 {
		h.out.Slices, h.out.Kind = began.slices, began.kind
	}
	for i := range h.cells {
		if c := &h.cells[i]; c.record != nil && c.record.Slices > 0 && c.slot.StartMS >= h.in.StartMS &&
			c.slot.StartMS < h.endMS {
			h.known.slices = c.record.Slices
		}
	}
	if h.out.Slices == 0 {
		h.out.Slices = 1
	}
	h.before = h.known.capacityOf(h.in.StartMS - HourMS)
	h.known.hourMS, h.known.hour = h.in.StartMS, capacity{h.out.Slices, h.out.Kind}
	for i := range h.sightings {
		s := &h.sightings[i]
		s.SlicesFirst, s.KindFirst = h.out.Slices, h.out.Kind
		if s.SlicesLast == 0 { // only records without a number of slices: what was known before stays
			s.SlicesLast = h.known.slices
		}
	}
}

// firstCapacity is the capacity in the first record of [from, to).
func (h *gpuHour) firstCapacity(from, to int64) capacity {
	for i := range h.cells {
		c := &h.cells[i]
		if c.record != nil && c.record.Slices > 0 && c.slot.StartMS >= from && c.slot.StartMS < to {
			return capacity{c.record.Slices, c.record.Kind}
		}
	}
	return capacity{}
}

// excess reports whether the batch lists more slices than the GPU's capacity in that
// hour, or another kind: then the whole slot is unobserved. Slots around the hour are
// compared with the capacity of their own hour, so that both hours infer the same over
// a gap between them.
func (h *gpuHour) excess(c *cell) bool {
	if c.record == nil {
		return false
	}
	of := capacity{h.out.Slices, h.out.Kind}
	switch next := h.in.StartMS + HourMS; {
	case c.slot.StartMS < h.in.StartMS:
		of = h.before
	case c.slot.StartMS >= next:
		of = h.firstCapacity(next, next+HourMS)
	}
	return c.has(WhyExcess) ||
		(of.slices > 0 && (c.record.Slices > of.slices || (c.record.Slices > 0 && c.record.Kind != of.kind)))
}
