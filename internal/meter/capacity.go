package meter

// capacity is what an hour's entry of the inventory has: slices of what.
// Slices 0: not known.
type capacity struct {
	slices int
	kind   Kind
}

// capacity is the hour's first record's, else the last one before. It keeps
// for the next hour what this one began with.
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
		if s.SlicesLast == 0 { // nothing but records without figures: what was known before
			s.SlicesLast = h.known.slices
		}
	}
}

// firstCapacity is what the first record in [from, to) says.
func (h *gpuHour) firstCapacity(from, to int64) capacity {
	for i := range h.cells {
		c := &h.cells[i]
		if c.record != nil && c.record.Slices > 0 && c.slot.StartMS >= from && c.slot.StartMS < to {
			return capacity{c.record.Slices, c.record.Kind}
		}
	}
	return capacity{}
}

// excess says that the slot tells more than its hour's capacity can hold, or
// of something else than its hour began with: the whole slot is unobserved.
// Slots around the hour are held to the capacity of their own hour, so that
// both hours infer alike over a gap between them.
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
