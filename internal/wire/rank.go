package wire

import (
	"bytes"
	"cmp"
)

const (
	bootBits     = 41 // ms since 1970 until 2039-09
	observedBits = 22 // an hour has 3,600,000 ms
)

// FillRev is the rank of a fill, below that of every other batch: any collector's batch replaces it, even an
// unobserved one (R18).
const FillRev = 0

// Rev ranks the batches of one (node, slot): attribution ok first, then the observed milliseconds of the slot, then
// the later boot (R1). A fill ranks below all; of two fills the later run's Rank is greater.
func Rev(b *Batch) uint64 {
	if b.Fill {
		return FillRev
	}
	rev := min(uint64(max(b.BootMs, 0)), 1<<bootBits-1)
	rev |= min(uint64(ObservedMS(b)), 1<<observedBits-1) << bootBits
	if AttributionOK(b) {
		rev |= 1 << (bootBits + observedBits)
	}
	return max(rev, FillRev+1)
}

// Rank decides which of two batches of one (node, slot) counts.
type Rank struct {
	Rev       uint64
	Collector string
	BootMS    int64
	Seq       uint64
	Hash      [32]byte
}

// Compare is positive when r wins over o. Arrival order, offset and ingest
// time never decide (R1).
func (r Rank) Compare(o Rank) int {
	return cmp.Or(
		cmp.Compare(r.Rev, o.Rev),
		cmp.Compare(r.Collector, o.Collector),
		cmp.Compare(r.BootMS, o.BootMS),
		cmp.Compare(r.Seq, o.Seq),
		bytes.Compare(r.Hash[:], o.Hash[:]),
	)
}

// AttributionOK returns whether the batch's holds are complete (R4).
func AttributionOK(b *Batch) bool { return b.Attribution != Attribution_ATTRIBUTION_FAILED }

// EnumerationComplete returns whether a GPU missing in the batch is lost (R2).
func EnumerationComplete(b *Batch) bool { return b.Enumeration != Enumeration_ENUMERATION_PARTIAL }

// ObservedMS is the number of observed milliseconds of the slot.
func ObservedMS(b *Batch) int64 {
	var sum int64
	for _, o := range Observed(b) {
		sum += o.ToMs - o.FromMs
	}
	return sum
}

// Observed lists the observed parts of the slot, ascending and disjoint.
func Observed(b *Batch) []*Interval {
	switch {
	case b.Unobserved:
		return nil
	case len(b.Observed) == 0:
		return []*Interval{{FromMs: 0, ToMs: b.SlotMs}}
	default:
		return b.Observed
	}
}
