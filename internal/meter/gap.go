package meter

import (
	"math/big"
	"slices"
)

// inference is inferred time of one leaf in one slot: each holder's exact part.
type inference struct {
	startMS int64
	leaf    uint64
	sliceMS int64 // of the leaf, whoever held it
	holders []inferredHolder
}

type inferredHolder struct {
	owner  uint64
	amount *big.Rat
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
	for i := range h.cells {
		c := &h.cells[i]
		if before != nil && (before.node != c.node || h.absentBefore(i)) { // never across nodes, nor over another's slot
			before, failed = nil, nil
		}
		switch h.knowledge(c) {
		case nothing:
		case ownersUnknown:
			failed = append(failed, c)
		case against:
			before, failed = nil, nil
		case sideOfGap:
			if before != nil {
				h.inferBetween(before, c, failed)
			}
			before, failed = c, nil
		}
	}
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

func (h *gpuHour) inferBetween(a, b *cell, failed []*cell) {
	_, from := a.slot.bounds(h.in.SlotMS)
	to, _ := b.slot.bounds(h.in.SlotMS)
	if to <= from || to-from > GapMaxMS {
		return
	}
	tail, head := a.side(true), b.side(false)
	for _, leaf := range tail.leaves() {
		holders, same := h.sameHolders(tail.of(leaf), head.of(leaf))
		if !same || !listedThroughout(leaf, failed) {
			continue
		}
		h.inferOver(leaf, holders, from, to)
	}
}

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
	return s
}

func (s side) leaves() []uint64 {
	var out []uint64
	for _, e := range s {
		if !slices.Contains(out, e.leaf) {
			out = append(out, e.leaf)
		}
	}
	return out
}

func (s side) of(leaf uint64) side {
	var out side
	for _, e := range s {
		if e.leaf == leaf {
			out = append(out, e)
		}
	}
	return out
}

// sameHolders compares by the owners' ids: facts of one owner may grow. What
// is inferred goes to the owner as it was known after the gap.
func (h *gpuHour) sameHolders(before, after side) (side, bool) {
	if len(before) != len(after) {
		return nil, false
	}
	for _, x := range before {
		if !slices.ContainsFunc(after, func(y edgeShare) bool {
			return y.share == x.share && (y.owner == x.owner || h.in.OwnerID(y.owner) == h.in.OwnerID(x.owner))
		}) {
			return nil, false
		}
	}
	return after, true
}

// listedThroughout says that every batch in the gap lists the leaf alike in
// all of its observed time.
func listedThroughout(leaf uint64, failed []*cell) bool {
	for _, c := range failed {
		if !slices.ContainsFunc(c.record.Rows, func(r Row) bool {
			return r.Leaf == leaf && r.Why == WhyAttribution && r.Head != 0
		}) {
			return false
		}
	}
	return true
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
	for i := range h.inferred {
		if inf := &h.inferred[i]; inf.startMS == startMS && inf.leaf == leaf {
			return inf
		}
	}
	h.inferred = append(h.inferred, inference{startMS: startMS, leaf: leaf})
	return &h.inferred[len(h.inferred)-1]
}

func (inf *inference) add(owner uint64, sliceMS int64, s Share) {
	num, den := s.Rat()
	amount := big.NewRat(sliceMS*num, den)
	for i := range inf.holders {
		if inf.holders[i].owner == owner {
			inf.holders[i].amount.Add(inf.holders[i].amount, amount)
			return
		}
	}
	inf.holders = append(inf.holders, inferredHolder{owner, amount})
}

// roundInferred rounds each slot's inferred time of a leaf once, apart from
// what was seen (R12). The part that nobody held stays unobserved.
func (h *gpuHour) roundInferred() {
	for _, inf := range h.inferred {
		held := new(big.Rat)
		parts := make([]part, 0, len(inf.holders)+1)
		for _, p := range inf.holders {
			held.Add(held, p.amount)
			parts = append(parts, part{amount: p.amount, id: h.in.OwnerID(p.owner)})
		}
		total := new(big.Int).Add(held.Num(), new(big.Int).Sub(held.Denom(), big.NewInt(1)))
		total.Quo(total, held.Denom()) // up: the rest, which nobody held, takes part in the step
		rest := new(big.Rat).Sub(new(big.Rat).SetInt(total), held)
		parts = append(parts, part{amount: rest, last: true})
		got := apportion(inf.startMS, total.Int64(), parts)
		var inferred int64
		for i, p := range inf.holders {
			o := h.owner(inf.leaf, p.owner)
			o.Unproven += got[i]
			o.Inferred += got[i]
			inferred += got[i]
		}
		h.counted += inferred
		if inf.sliceMS > 0 {
			unread := new(big.Int).Mul(big.NewInt(inferred), big.NewInt(h.unread(inf.startMS, inf.leaf)))
			h.out.UnobservedAttribution -= unread.Quo(unread, big.NewInt(inf.sliceMS)).Int64()
		}
	}
}

// unread is a leaf's time in the slot of a batch whose owners could not be
// read. What is inferred of it is no longer unobserved for that reason.
func (h *gpuHour) unread(startMS int64, leaf uint64) int64 {
	for i := range h.cells {
		c := &h.cells[i]
		if c.slot.StartMS != startMS || c.record == nil {
			continue
		}
		for _, r := range c.record.Rows {
			if r.Leaf == leaf && r.Why == WhyAttribution {
				return r.SliceMS
			}
		}
	}
	return 0
}
