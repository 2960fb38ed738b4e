package meter

import (
	"cmp"
	"math/big"
	"slices"
)

// RestGrade says what shows that an owner's leaf did no work.
type RestGrade uint8

// The grades of rest, ascending in proof.
const (
	RestUnknown   RestGrade = 1 // held, without evidence for or against
	RestSuspected RestGrade = 2 // the only valid signal was quiet
	RestProven    RestGrade = 3 // bucket idle: at least two valid signals, all quiet
)

// RestRun is time of one grade without a gap, in ms of the hour: the whole slots, or
// their observed parts, in which an owner held a leaf that showed no work.
type RestRun struct {
	FromMS, ToMS int64
	SliceMS      int64 // the owner's
	Grade        RestGrade
	// Released: the next slot was observed, and the owner no longer held the leaf.
	Released bool
}

// minRestMS is the shortest stretch of rest, of any grades, that an hour keeps. A
// shorter one is kept only where it touches the hour's start or counted end, where it
// may be a part of a longer one.
const minRestMS = 5 * 60_000

// restGrade is the grade of a row; 0: it is not rest.
func (r *Row) restGrade() RestGrade {
	switch {
	case r.Bucket == Idle:
		return RestProven
	case r.Bucket != Unproven || r.Why == WhyShared || r.Why == WhyInferred:
		return 0
	case r.Why == WhyOneSignal:
		return RestSuspected
	}
	return RestUnknown
}

// rest adds a row's slot to the owner's rest.
func (h *gpuHour) rest(slot *NodeSlot, r *Row) {
	grade := r.restGrade()
	if grade == 0 || r.SliceMS == 0 {
		return
	}
	o := h.owner(r.Leaf, r.Owner)
	at := slot.StartMS - h.in.StartMS
	if len(slot.Observed) == 0 {
		o.addRest(RestRun{FromMS: at, ToMS: at + h.in.SlotMS, SliceMS: r.SliceMS, Grade: grade})
		return
	}
	left, leftMS := r.SliceMS, slot.observedMS(h.in.SlotMS)
	for i := 0; i+1 < len(slot.Observed); i += 2 {
		from, to := slot.Observed[i], slot.Observed[i+1]
		part := new(big.Int).Mul(big.NewInt(left), big.NewInt(to-from))
		sliceMS := part.Quo(part, big.NewInt(leftMS)).Int64()
		o.addRest(RestRun{FromMS: at + from, ToMS: at + to, SliceMS: sliceMS, Grade: grade})
		left, leftMS = left-sliceMS, leftMS-(to-from)
	}
}

// addRest appends a run, or extends the last one.
func (o *OwnerUse) addRest(r RestRun) {
	if n := len(o.Rest); n > 0 && o.Rest[n-1].ToMS == r.FromMS && o.Rest[n-1].Grade == r.Grade {
		o.Rest[n-1].ToMS = r.ToMS
		o.Rest[n-1].SliceMS += r.SliceMS
		return
	}
	o.Rest = append(o.Rest, r)
}

// releases marks the runs of rest after which the owner no longer held the leaf. If the hold ended within a slot, that
// slot is time without evidence, and the run before it was released too.
func (h *gpuHour) releases(o *OwnerUse) {
	for n := len(o.Rest) - 1; n >= 0; n-- {
		r := &o.Rest[n]
		if n+1 < len(o.Rest) && o.Rest[n+1].FromMS == r.ToMS {
			next := o.Rest[n+1]
			r.Released = next.Released && next.Grade == RestUnknown && next.ToMS-next.FromMS <= h.in.SlotMS
			continue
		}
		c := h.cellFrom(h.in.StartMS + r.ToMS)
		r.Released = c != nil && h.knowledge(c) == sideOfGap && !c.record.heldBy(o.Leaf, o.Owner)
	}
}

// cellFrom is the cell whose observed time begins at an instant, in Unix ms; nil: there is none.
func (h *gpuHour) cellFrom(at int64) *cell {
	i, found := slices.BinarySearchFunc(h.cells, at, func(c cell, at int64) int { return cmp.Compare(c.slot.StartMS, at) })
	if !found {
		i--
	}
	if i < 0 {
		return nil
	}
	if first, _ := h.cells[i].slot.bounds(h.in.SlotMS); first != at {
		return nil
	}
	return &h.cells[i]
}

// heldBy reports whether the owner held the leaf at any time of the record's slot.
func (r *Record) heldBy(leaf, owner uint64) bool {
	return slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Leaf == leaf && row.Owner == owner })
}

// trimRest drops the stretches that are too short to keep. untilMS is the end of the
// counted part of the hour.
func (o *OwnerUse) trimRest(untilMS int64) {
	kept := o.Rest[:0]
	for i := 0; i < len(o.Rest); {
		end := i + 1
		for end < len(o.Rest) && o.Rest[end].FromMS == o.Rest[end-1].ToMS {
			end++
		}
		from, to := o.Rest[i].FromMS, o.Rest[end-1].ToMS
		if to-from >= minRestMS || from == 0 || to >= untilMS {
			kept = append(kept, o.Rest[i:end]...)
		}
		i = end
	}
	o.Rest = kept
}
