package meter

// capacity is the hour's first record's, else the last one before. It keeps
// for the next hour what this one began with.
func (h *gpuHour) capacity() {
	if began := h.firstSlices(h.in.StartMS, h.endMS); began > 0 {
		h.out.Slices = began
	}
	for i := range h.cells {
		if c := &h.cells[i]; c.record != nil && c.record.Slices > 0 && c.slot.StartMS >= h.in.StartMS && c.slot.StartMS < h.endMS {
			h.known.slices = c.record.Slices
		}
	}
	if h.out.Slices == 0 {
		h.out.Slices = 1
	}
	h.slicesBefore = h.known.slicesOf(h.in.StartMS - HourMS)
	h.known.hourMS, h.known.hourSlices = h.in.StartMS, h.out.Slices
	for i := range h.sightings {
		h.sightings[i].SlicesFirst = h.out.Slices
		if h.sightings[i].SlicesLast == 0 { // nothing but records without figures: what was known before
			h.sightings[i].SlicesLast = h.known.slices
		}
	}
}

// firstSlices is what the first record in [from, to) says, 0 where none does.
func (h *gpuHour) firstSlices(from, to int64) int {
	for i := range h.cells {
		c := &h.cells[i]
		if c.record != nil && c.record.Slices > 0 && c.slot.StartMS >= from && c.slot.StartMS < to {
			return c.record.Slices
		}
	}
	return 0
}

// excess says that the slot tells more than its hour's capacity can hold: the
// whole slot is unobserved. Slots around the hour are held to the capacity of
// their own hour, so that both hours infer alike over a gap between them; 0
// is a capacity that isn't known.
func (h *gpuHour) excess(c *cell) bool {
	if c.record == nil {
		return false
	}
	slices := h.out.Slices
	switch next := h.in.StartMS + HourMS; {
	case c.slot.StartMS < h.in.StartMS:
		slices = h.slicesBefore
	case c.slot.StartMS >= next:
		slices = h.firstSlices(next, next+HourMS)
	}
	return c.has(WhyExcess) || (slices > 0 && c.record.Slices > slices)
}
