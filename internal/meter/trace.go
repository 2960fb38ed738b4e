package meter

import "sort"

// tracer keeps what only Trace needs: the time counted slot by slot, and the gaps. The
// zero value records nothing.
type tracer struct {
	on      bool
	slots   map[int64]*tracedSlot
	gapEnds []gapEnd // ascending
}

// tracedSlot is what is known of one slot's time, in slice-ms.
type tracedSlot struct {
	counted     int64 // in any bucket
	attribution int64 // observed, with unknown owners
}

// gapEnd is the instant at which a gap ends, Unix ms.
type gapEnd struct {
	atMS int64
	why  GapWhy
}

func (t *tracer) slot(startMS int64) *tracedSlot {
	s := t.slots[startMS]
	if s == nil {
		if t.slots == nil {
			t.slots = map[int64]*tracedSlot{}
		}
		s = &tracedSlot{}
		t.slots[startMS] = s
	}
	return s
}

func (t *tracer) gap(endMS int64, why GapWhy) {
	if t.on {
		t.gapEnds = append(t.gapEnds, gapEnd{endMS, why})
	}
}

func (t *tracer) unread(startMS, sliceMS int64) {
	if t.on {
		t.slot(startMS).attribution += sliceMS
	}
}

// gapAt returns why nothing was inferred in the gap that contains an instant.
func (t *tracer) gapAt(ms int64) GapWhy {
	i := sort.Search(len(t.gapEnds), func(i int) bool { return t.gapEnds[i].atMS > ms })
	if i == len(t.gapEnds) {
		return GapLast
	}
	return t.gapEnds[i].why
}

func (h *gpuHour) trace(node string, startMS int64, r Row) {
	if !h.tracer.on {
		return
	}
	h.tracer.slot(startMS).counted += r.SliceMS
	if r != (Row{
		Bucket: r.Bucket, Why: r.Why, EnergyWhy: r.EnergyWhy, Leaf: r.Leaf, Owner: r.Owner, Head: r.Head,
		Tail: r.Tail,
	}) {
		h.in.Trace(h.gpu, Part{Node: node, StartMS: startMS, Row: r})
	}
}

// traceUnobserved passes the time that is in no other bucket to Trace, slot by slot:
// slots without a batch, and what a batch leaves open.
func (h *gpuHour) traceUnobserved() {
	if !h.tracer.on {
		return
	}
	cells := map[int64]*cell{}
	for i := range h.cells {
		cells[h.cells[i].slot.StartMS] = &h.cells[i]
	}
	for _, p := range h.present {
		for from := p.from; from < p.to; {
			start := from - from%h.in.SlotMS
			to := min(start+h.in.SlotMS, p.to)
			h.traceSlot(start, int64(h.out.Slices)*(to-from), cells[start])
			from = to
		}
	}
}

// traceSlot passes on the unobserved time of one slot whose total is sliceMS.
func (h *gpuHour) traceSlot(startMS, sliceMS int64, c *cell) {
	s := h.tracer.slot(startMS)
	part := Part{Node: h.nodeAt(startMS), StartMS: startMS, Row: Row{Bucket: Unobserved}, Gap: h.tracer.gapAt(startMS)}
	show := func(why Why, sliceMS int64) {
		part.Why, part.SliceMS = why, sliceMS
		if sliceMS > 0 {
			h.in.Trace(h.gpu, part)
		}
	}
	show(WhyAttribution, s.attribution)
	show(h.unobservedWhy(c), sliceMS-s.counted-s.attribution)
}

// unobservedWhy is the reason why time of a slot is in no other bucket.
func (h *gpuHour) unobservedWhy(c *cell) Why {
	switch {
	case c == nil:
		return WhyNoBatch
	case c.slot.Nothing:
		return WhyNothing
	case c.record == nil && c.slot.Complete:
		return WhyPart
	case c.record == nil:
		return WhyUnlisted
	case h.excess(c) && !c.lost():
		return WhyExcess
	case len(c.slot.Observed) > 0:
		return WhyPart
	case h.out.Kind == OpenPool:
		return WhyCapacity
	}
	return WhyListed
}
