package meter

import (
	"cmp"
	"math/big"
	"slices"
)

// inference is inferred time of one leaf in one slot: each holder's exact part.
type inference struct {
	slotLeaf
	sliceMS int64 // of the leaf, whoever held it
	owners  []uint64
	index   map[uint64]int // of owners, where there are many
	held    fractions
}

// slotLeaf is a leaf in one slot.
type slotLeaf struct {
	startMS int64
	leaf    uint64
}

// side is one edge of a gap: the shares of a leaf's holders there.
type side []edgeShare

type edgeShare struct {
	leaf, owner uint64
	share       Share
}

// infer applies R10: a gap of a leaf of at most GapMaxMS with the same leaf
// and the same holders on both sides and nothing known in between is unproven,
// at those shares. All else that is missing stays unobserved.
func (h *gpuHour) infer() {
	h.inferInsideSlots()
	var before *cell
	var failed []*cell // batches in the gap whose owners could not be read
	why := GapFirst    // without a side before the gap
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

// absentBefore says that a pool of unknown capacity was out of the inventory
// just before the cell: it is there only where it is listed.
func (h *gpuHour) absentBefore(i int) bool {
	c := &h.cells[i]
	return h.out.Kind == OpenPool && (c.record == nil || i == 0 || c.slot.StartMS != h.cells[i-1].slot.StartMS+h.in.SlotMS)
}

type knowledge int

const (
	nothing       knowledge = iota // the gap goes on
	ownersUnknown                  // goes on for the leaves that the failed batch lists alike
	against                        // something is known: no gap reaches over it
	sideOfGap                      // holders are known
)

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

// inferBetween infers between two sides, and answers why not all of it.
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

// side is ordered by leaf, then owner.
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
		y edgeShare) int {
		return cmp.Or(cmp.Compare(x.leaf, y.leaf), cmp.Compare(x.owner, y.owner))
	})
	return s
}

// cut takes the leaf's holders off the beginning.
func (s side) cut(leaf uint64) (of, rest side) {
	n := slices.IndexFunc(s, func(e edgeShare) bool { return e.leaf != leaf })
	if n < 0 {
		n = len(s)
	}
	return s[:n], s[n:]
}

// sameHolders compares by the owners' ids: facts of one owner may grow. What
// is inferred goes to the owner as it was known after the gap.
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

// unlistedIn tells the leaves that not every batch in the gap lists alike in all
// of its observed time.
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

// inferOver books [from, to), as far as it lies in what is counted of the
// hour, slot by slot.
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

// inferInsideSlots takes the gaps that settlement found inside a slot.
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

// party finds or adds a holder.
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

// roundInferred rounds each slot's inferred time of a leaf once, apart from
// what was seen (R12). The part that nobody held stays unobserved.
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
			h.bookAt(h.nodeAt(inf.startMS), inf.startMS,
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

// unread is the time of leaves in slots whose batch could not read owners. What is
// inferred of it is no longer unobserved for that reason.
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
