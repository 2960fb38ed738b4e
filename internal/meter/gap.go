package meter

import (
	"cmp"
	"math/big"
	"slices"
)

// inference is the inferred time of one leaf in one slot, with each holder's exact
// part.
type inference struct {
	slotLeaf
	sliceMS int64 // of the leaf, for all holders together
	owners  []uint64
	index   map[uint64]int // of owners, used where there are many
	held    fractions
}

// slotLeaf identifies a leaf in one slot.
type slotLeaf struct {
	startMS int64
	leaf    uint64
}

// side is one edge of a gap: the shares of the holders of each leaf there.
type side []edgeShare

type edgeShare struct {
	leaf, owner uint64
	share       Share
}

// infer applies R10: a gap of at most GapMaxMS in what is known of a leaf, with the
// same leaf and the same holders on both sides and nothing known in between, counts as
// unproven at those shares. All other missing time stays unobserved.
func (h *gpuHour) infer() {
	h.inferInsideSlots()
	var before *cell
	var failed []*cell // batches in the gap without known owners
	why := GapFirst    // no side before the gap yet
	for i := range h.cells {
		c := &h.cells[i]
		switch {
		case before == nil:
		case before.node != c.node: // never across nodes
			before, failed, why = nil, nil, GapMoved
		case before.life != c.life:
			before, failed, why = nil, nil, GapRetired
		case h.absentBefore(i):
			before, failed, why = nil, nil, GapFirst
		}
		switch h.knowledge(c) {
		case nothing:
		case ownersUnknown:
			failed = append(failed, c)
		case against:
			before, failed, why = nil, nil, GapKnown
		case sideOfGap:
			if before != nil {
				why = h.inferBetween(before, c, failed)
			}
			first, _ := c.slot.bounds(h.in.SlotMS)
			h.tracer.gap(first, why)
			before, failed, why = c, nil, GapLast
		}
	}
	h.tracer.gap(h.in.StartMS+HourMS+GapMaxMS, why)
	h.roundInferred()
}

// absentBefore reports whether a pool of unknown capacity was outside the inventory
// just before the cell: such a pool is present only in slots that list it.
func (h *gpuHour) absentBefore(i int) bool {
	c := &h.cells[i]
	return h.out.Kind == OpenPool && (c.record == nil || i == 0 || c.slot.StartMS != h.cells[i-1].slot.StartMS+h.in.SlotMS)
}

type knowledge int

const (
	nothing       knowledge = iota // the gap goes on
	ownersUnknown                  // the gap goes on for leaves that the batch lists unchanged
	against                        // contradicts the gap: no inference across it
	sideOfGap                      // holders are known
)

// knowledge tells what a cell means for the gap that it may lie in.
func (h *gpuHour) knowledge(c *cell) knowledge {
	switch {
	case c.slot.Nothing:
		return nothing
	case c.record == nil && c.slot.Complete:
		return against
	case c.record == nil:
		return nothing
	case c.lost() || h.excess(c):
		return against
	case !c.slot.AttributionOK:
		return ownersUnknown
	default:
		return sideOfGap
	}
}

// inferBetween infers between two sides, and returns why some or all of the gap was
// not inferred.
func (h *gpuHour) inferBetween(a, b *cell, failed []*cell) GapWhy {
	_, from := a.slot.bounds(h.in.SlotMS)
	to, _ := b.slot.bounds(h.in.SlotMS)
	if to <= from {
		return GapNone
	}
	if to-from > GapMaxMS {
		return GapLong
	}
	tail, head, unlisted := a.side(true), b.side(false), unlistedIn(failed)
	if len(tail)+len(head) == 0 {
		return GapNobody
	}
	inferred := false
	for len(tail) > 0 && len(head) > 0 {
		leaf := min(tail[0].leaf, head[0].leaf)
		var before, after side
		before, tail = tail.cut(leaf)
		after, head = head.cut(leaf)
		if holders, same := h.sameHolders(before, after); same && !unlisted(leaf) {
			h.inferOver(leaf, holders, from, to)
			inferred = true
		}
	}
	if inferred {
		return GapOtherwise
	}
	return GapHolders
}

// side returns the shares at the cell's last (tail) or first instant, in order of
// leaf, then owner.
func (c *cell) side(tail bool) side {
	var s side
	for _, r := range c.record.Rows {
		share := r.Head
		if tail {
			share = r.Tail
		}
		if share != 0 && r.Bucket != Pending {
			s = append(s, edgeShare{r.Leaf, r.Owner, share})
		}
	}
	slices.SortFunc(s, func(x,
		y edgeShare,
	) int {
		return cmp.Or(cmp.Compare(x.leaf, y.leaf), cmp.Compare(x.owner, y.owner))
	})
	return s
}

// cut splits off the first leaf's holders.
func (s side) cut(leaf uint64) (of, rest side) {
	n := slices.IndexFunc(s, func(e edgeShare) bool { return e.leaf != leaf })
	if n < 0 {
		n = len(s)
	}
	return s[:n], s[n:]
}

// sameHolders compares two sides by the owners' ids, because more facts of an owner
// may become known later. The inferred time goes to the owner as known after the gap.
func (h *gpuHour) sameHolders(before, after side) (side, bool) {
	if len(before) != len(after) {
		return nil, false
	}
	if slices.Equal(before, after) {
		return after, true
	}
	type holding struct {
		id    string
		share Share
	}
	there := make(map[holding]bool, len(after))
	for _, e := range after {
		there[holding{h.in.OwnerID(e.owner), e.share}] = true
	}
	for _, e := range before {
		if !there[holding{h.in.OwnerID(e.owner), e.share}] {
			return nil, false
		}
	}
	return after, true
}

// unlistedIn returns a function that reports whether a leaf is missing from, or only
// partly listed in, any batch of the gap.
func unlistedIn(failed []*cell) func(leaf uint64) bool {
	listed := map[uint64]int{}
	for i, c := range failed {
		for _, r := range c.record.Rows {
			if r.Why == WhyAttribution && r.Head != 0 && listed[r.Leaf] == i {
				listed[r.Leaf]++
			}
		}
	}
	return func(leaf uint64) bool { return listed[leaf] < len(failed) }
}

// inferOver adds inferred time in [from, to), slot by slot, as far as it lies in the
// counted part of the hour.
func (h *gpuHour) inferOver(leaf uint64, holders side, from, to int64) {
	from, to = max(from, h.in.StartMS), min(to, h.endMS)
	for from < to {
		start := from - from%h.in.SlotMS
		end := min(start+h.in.SlotMS, to)
		if !h.presentAt(from) {
			from = end
			continue
		}
		sliceMS := int64(h.in.LeafSlices(leaf)) * (end - from)
		inf := h.inference(start, leaf)
		inf.sliceMS += sliceMS
		for _, e := range holders {
			inf.add(e.owner, sliceMS, e.share)
		}
		from = end
	}
}

// inferInsideSlots adds the gaps that Classify found inside one slot.
func (h *gpuHour) inferInsideSlots() {
	for i := range h.cells {
		c := &h.cells[i]
		if h.knowledge(c) != sideOfGap || c.slot.StartMS < h.in.StartMS || c.slot.StartMS >= h.endMS {
			continue
		}
		for _, r := range c.record.Rows {
			if r.Bucket == Pending && r.Why == WhyInferred {
				h.inference(c.slot.StartMS, r.Leaf).add(r.Owner, r.SliceMS, r.Head)
			}
		}
	}
}

func (h *gpuHour) inference(startMS int64, leaf uint64) *inference {
	key := slotLeaf{startMS, leaf}
	i, ok := h.inferAt[key]
	if !ok {
		if h.inferAt == nil {
			h.inferAt = map[slotLeaf]int{}
		}
		i = len(h.inferred)
		h.inferAt[key] = i
		h.inferred = append(h.inferred, inference{slotLeaf: key})
	}
	return &h.inferred[i]
}

func (inf *inference) add(owner uint64, sliceMS int64, s Share) {
	i := inf.party(owner)
	num, den := s.Rat()
	inf.held.class(den)[i] += sliceMS * num
}

// party finds the holder's index, or adds the holder.
func (inf *inference) party(owner uint64) int {
	n := len(inf.owners)
	if n < fewOwners {
		if i := slices.Index(inf.owners, owner); i >= 0 {
			return i
		}
	} else {
		if inf.index == nil {
			inf.index = make(map[uint64]int, 2*n)
			for i, o := range inf.owners {
				inf.index[o] = i
			}
		}
		if i, ok := inf.index[owner]; ok {
			return i
		}
		inf.index[owner] = n
	}
	inf.owners = append(inf.owners, owner)
	inf.held.parties = n + 1
	return n
}

// roundInferred rounds the inferred time of each leaf and slot once, separately from
// the observed time (R12). The part that nobody held stays unobserved.
func (h *gpuHour) roundInferred() {
	unread := h.unread()
	for i := range h.inferred {
		inf := &h.inferred[i]
		ids := make([]string, len(inf.owners))
		for j, owner := range inf.owners {
			ids[j] = h.in.OwnerID(owner)
		}
		got, _ := inf.held.apportion(inf.startMS, inf.held.ceiling(), ids)
		var inferred int64
		for j, owner := range inf.owners {
			h.addRowAt(h.nodeAt(inf.startMS), inf.startMS,
				Row{Leaf: inf.leaf, Owner: owner, Bucket: Unproven, Why: WhyInferred, SliceMS: got[j]})
			inferred += got[j]
		}
		if inf.sliceMS > 0 {
			part := new(big.Int).Mul(big.NewInt(inferred), big.NewInt(unread[inf.slotLeaf]))
			proven := part.Quo(part, big.NewInt(inf.sliceMS)).Int64()
			h.out.UnobservedAttribution -= proven
			h.tracer.unread(inf.startMS, -proven)
		}
	}
}

// unread is the time of leaves in slots whose batch has no owners (attribution
// failed). Once inferred, it is no longer unobserved for that reason.
func (h *gpuHour) unread() map[slotLeaf]int64 {
	if len(h.inferred) == 0 {
		return nil
	}
	out := map[slotLeaf]int64{}
	for i := range h.cells {
		c := &h.cells[i]
		if c.record == nil {
			continue
		}
		for _, r := range c.record.Rows {
			if key := (slotLeaf{c.slot.StartMS, r.Leaf}); r.Why == WhyAttribution && out[key] == 0 {
				out[key] = r.SliceMS
			}
		}
	}
	return out
}
