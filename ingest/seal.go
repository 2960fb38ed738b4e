package ingest

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/gputally/gputally/internal/meter"
)

// seal is the first half of the SHA-256 of a journal row and of the batch's rows in
// holds: nobody finds others for it in less than 2^127 attempts. Who may write the
// journal can write another seal; that shows only where the topic is read again.
type seal [16]byte

// sealOf seals a journal row, see text, over the half hash of the batch's rows.
func sealOf(row []byte, raw seal) seal {
	sum := sha256.Sum256(append(row, raw[:]...))
	return seal(sum[:16])
}

// text is all of journal row i but its seal. A text is its length and its bytes, a
// number a varint, a list the number of its values and these.
func (c *journalColumns) text(i int) []byte {
	t := make([]byte, 0, 1024)
	for _, s := range [...]string{c.topic.Row(i), c.reason.Row(i), c.cluster.Row(i), c.node.Row(i), c.collector.Row(i)} {
		t = appendText(t, s)
	}
	t = append(t, c.hash.Row(i)...)
	for _, n := range [...]uint64{
		uint64(c.partition[i]), c.offset[i], uint64(c.status[i]), uint64(c.slot.Data[i]), uint64(c.slotMS[i]), c.bootMS[i], c.seq[i], c.rev[i],
		c.batch[i], uint64(c.attributionOK[i]), uint64(c.complete[i]), uint64(c.observedMS[i]), uint64(c.holdRows[i]), uint64(c.energy[i]),
		uint64(c.origin[i]), uint64(c.counted[i]), c.sampled[i], c.spooled[i], c.dropped[i], c.spoolDropped[i], c.prevBoot[i], c.prevSeq[i],
		uint64(c.unknown[i]), uint64(c.appendedAt.Data[i]), uint64(c.ingestedAt.Data[i]),
	} {
		t = binary.AppendUvarint(t, n)
	}
	t = appendNumbers(appendNumbers(appendNumbers(appendNumbers(t, c.observed.Row(i)), c.gapBoot.Row(i)), c.gapFrom.Row(i)), c.gapTo.Row(i))
	gpus := c.gpus.Row(i)
	t = binary.AppendUvarint(t, uint64(len(gpus)))
	for _, gpu := range gpus {
		t = appendText(t, gpu)
	}
	return t
}

func appendNumbers[N uint32 | uint64](t []byte, list []N) []byte {
	t = binary.AppendUvarint(t, uint64(len(list)))
	for _, n := range list {
		t = binary.AppendUvarint(t, uint64(n))
	}
	return t
}

// rawOf brings the GPUs and their rows into the order of their keys and hashes
// them. GPUs without a row are none of the table's.
func rawOf(gpus []meter.GPUSlot, rules uint16) seal {
	t := make([]byte, 0, 256*len(gpus))
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
		t = append(t, byte(r.Bucket), byte(r.Why), byte(r.EnergyWhy))
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
