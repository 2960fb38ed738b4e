package ingest

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/gpuledger/gpuledger/internal/meter"
	"github.com/gpuledger/gpuledger/internal/wire"
)

// seal is the first half of the SHA-256 of a batch's facts and rows: nobody finds
// other rows for it in less than 2^127 attempts. Who may write the journal can
// write another seal; that shows only where the topic is read again.
type seal [16]byte

// facts are the columns of a journal row that decide which batch wins, what it
// covers and what its hour comes to.
type facts struct {
	cluster, node, collector string
	slot                     int64 // Unix seconds
	slotMS, observedMS       uint32
	bootMS, seq, rev         uint64
	hash                     [32]byte
	attributionOK, complete  uint8
	origin                   uint8
	observed                 []uint32
	gpus                     []string
	energyMJ                 int64
}

func factsOf(it *item) facts {
	b := it.batch
	return facts{
		cluster: b.Cluster, node: b.Node, collector: b.Collector, slot: slotTime(b.SlotStartMs).Unix(),
		slotMS: uint32(b.SlotMs), observedMS: uint32(wire.ObservedMS(b)), bootMS: uint64(b.BootMs), seq: b.Seq, rev: wire.Rev(b), hash: it.hash,
		attributionOK: flag(wire.AttributionOK(b)), complete: flag(wire.EnumerationComplete(b)), origin: uint8(origin(b)),
		observed: observedParts(b), gpus: uuids(b), energyMJ: energyOf(b),
	}
}

// sealOf brings the GPUs and their rows into the order of their keys and hashes
// them after the facts. A text is its length and its bytes; a number is a varint,
// a hash eight bytes. GPUs without a row are none of the table's.
func sealOf(f *facts, gpus []meter.GPUSlot, rules uint16) seal {
	t := make([]byte, 0, 512+256*len(gpus))
	for _, text := range [...]string{f.cluster, f.node, f.collector} {
		t = appendText(t, text)
	}
	t = append(append(t, f.hash[:]...), f.attributionOK, f.complete, f.origin)
	for _, n := range [...]uint64{
		uint64(f.slot), uint64(f.slotMS), uint64(f.observedMS), f.bootMS, f.seq, f.rev, uint64(f.energyMJ),
		uint64(len(f.observed)), uint64(len(f.gpus)),
	} {
		t = binary.AppendUvarint(t, n)
	}
	for _, ms := range f.observed {
		t = binary.AppendUvarint(t, uint64(ms))
	}
	for _, gpu := range f.gpus {
		t = appendText(t, gpu)
	}
	slices.SortFunc(gpus, func(a, b meter.GPUSlot) int { return cmp.Compare(a.UUID, b.UUID) })
	for i := range gpus {
		if len(gpus[i].Rows) > 0 {
			t = appendGPU(t, &gpus[i], rules)
		}
	}
	sum := sha256.Sum256(t)
	return seal(sum[:16])
}

func appendGPU(t []byte, g *meter.GPUSlot, rules uint16) []byte {
	t = appendText(appendText(t, g.UUID), g.Model)
	for _, n := range [...]int{g.Slices, int(g.Kind), int(rules), len(g.Rows)} {
		t = binary.AppendUvarint(t, uint64(n))
	}
	if !slices.IsSortedFunc(g.Rows, compareRows) {
		slices.SortFunc(g.Rows, compareRows)
	}
	for i := range g.Rows {
		r := &g.Rows[i]
		t = binary.LittleEndian.AppendUint64(t, r.Leaf)
		t = binary.LittleEndian.AppendUint64(t, r.Owner)
		t = append(t, byte(r.Bucket), byte(r.Why))
		for _, n := range [...]int64{r.SliceMS, r.Work, r.EnergyMJ, r.UnattributedMJ, int64(r.Head), int64(r.Tail)} {
			t = binary.AppendUvarint(t, uint64(n))
		}
	}
	return t
}

func appendText(t []byte, text string) []byte {
	return append(binary.AppendUvarint(t, uint64(len(text))), text...)
}

// compareRows is the order of table holds within a GPU and slot.
func compareRows(a, b meter.Row) int {
	switch {
	case a.Leaf != b.Leaf:
		return cmp.Compare(a.Leaf, b.Leaf)
	case a.Owner != b.Owner:
		return cmp.Compare(a.Owner, b.Owner)
	case a.Bucket != b.Bucket:
		return cmp.Compare(a.Bucket, b.Bucket)
	}
	return cmp.Or(cmp.Compare(a.Why, b.Why), cmp.Compare(a.Head, b.Head))
}
