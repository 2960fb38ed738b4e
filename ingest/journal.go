package ingest

import (
	"cmp"
	"time"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/wire"
)

func slotTime(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// journalBlock builds a block of table batches: one row per offset (C3).
type journalBlock struct{ *tables.Block[tables.Batch] }

func newJournalBlock() journalBlock { return journalBlock{tables.NewBlock[tables.Batch]()} }

// add adds the sealed journal row of a message.
func (j journalBlock) add(it *item, now time.Time) {
	row := journalRow(it, now)
	row.Seal = sealOf(sealText(&row), it.raw)
	j.Add(&row)
}

// journalRow is a message's journal row without its seal.
func journalRow(it *item, now time.Time) tables.Batch {
	b, status := it.batch, it.status()
	if status == tables.StatusDead || status == tables.StatusHole {
		b = &wire.Batch{}
	}
	row := tables.Batch{
		Topic: it.msg.Topic, Partition: uint32(it.msg.Partition), Offset: uint64(it.msg.Offset), Status: status,
		Reason: it.why(), Cluster: b.Cluster, Node: b.Node, Slot: slotTime(b.SlotStartMs).Truncate(time.Second),
		SlotMS: uint32(b.SlotMs), Collector: b.Collector, BootMS: uint64(b.BootMs), Seq: b.Seq, Rev: wire.Rev(b),
		Hash: it.hash, AttributionOK: flag(wire.AttributionOK(b)), Complete: flag(wire.EnumerationComplete(b)),
		ObservedMS: uint32(wire.ObservedMS(b)), Observed: observedParts(b), GPUs: uuids(b), HoldRows: uint32(it.rows()),
		EnergyMJ: energyOf(b), Origin: int8(max(b.Origin, wire.Origin_ORIGIN_LIVE)), UnknownFields: uint32(it.unknown),
		PrevBootMS: uint64(b.GetPredecessor().GetBootMs()), PrevSeq: b.GetPredecessor().GetLastSeq(),
		AppendedAt: epochIfZero(it.msg.Time), IngestedAt: now.UTC(),
	}
	if status == tables.StatusStored {
		row.Batch = it.id
	}
	n := b.GetCounters()
	row.Counted, row.Sampled, row.Spooled, row.SpoolDropped = flag(
		n != nil), n.GetSampled(), n.GetSpooled(), n.GetSpoolDropped()
	for _, d := range n.GetDropped() {
		row.Dropped += d
	}
	for _, g := range b.Gaps {
		row.GapBoot = append(row.GapBoot, uint64(cmp.Or(g.BootMs, b.BootMs)))
		row.GapFrom, row.GapTo = append(row.GapFrom, g.FromSeq), append(row.GapTo, g.ToSeq)
	}
	if it.last > 0 {
		row.GapBoot, row.GapFrom, row.GapTo = []uint64{0}, []uint64{row.Offset}, []uint64{uint64(it.last)}
	}
	return row
}

// epochIfZero stores an unknown instant as the Unix epoch.
func epochIfZero(t time.Time) time.Time {
	if t.IsZero() {
		return time.UnixMilli(0).UTC()
	}
	return t.UTC()
}

// spanRows is the longest range of unreadable offsets with a journal row for each. A
// longer range is one row, whose gap_from and gap_to are its first and last offset:
// otherwise a topic without its beginning, or a batch that claims 2^31 records, would
// fill memory and disk.
const spanRows = 10_000

// addSpan adds the offsets [from, to) of a message's partition as holes, or as dead.
func (j journalBlock) addSpan(msg broker.Message, from, to int64, status int8, reason string, now time.Time) {
	it := item{
		msg: broker.Message{Topic: msg.Topic, Partition: msg.Partition, Time: msg.Time}, reason: reason,
		hole: status == tables.StatusHole,
	}
	step := int64(1)
	if to-from > spanRows {
		it.last, step = to-1, to-from
	}
	for it.msg.Offset = from; it.msg.Offset < to; it.msg.Offset += step {
		j.add(&it, now)
	}
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// observedParts is empty if the whole slot was observed, and if nothing of it was:
// observed_ms distinguishes the two.
func observedParts(b *wire.Batch) []uint32 {
	var out []uint32
	for _, o := range b.Observed {
		out = append(out, uint32(o.FromMs), uint32(o.ToMs))
	}
	return out
}

// energyOf is the movement of all counters in the batch, in mJ. Readings above what a
// GPU can take are left out, as in the raw rows (C9).
func energyOf(b *wire.Batch) (sum int64) {
	for _, g := range b.Gpus {
		mj, _, _ := wire.Energy(g, b.SlotMs)
		sum += mj
	}
	return sum
}

func uuids(b *wire.Batch) []string {
	out := make([]string, len(b.Gpus))
	for i, g := range b.Gpus {
		out[i] = g.Uuid
	}
	return out
}

// reasonRawDropped is the reason of late batches: their hours can't be recomputed
// (R3).
const reasonRawDropped = "raw_dropped"

// why is the reason in the journal, empty for a stored batch.
func (it *item) why() string {
	if it.late {
		return reasonRawDropped
	}
	return it.reason
}

// lateRow keeps the whole message, so that a person can compute what the batch would have changed.
func lateRow(it *item, now time.Time) tables.Late {
	return tables.Late{
		Topic: it.msg.Topic, Partition: uint32(it.msg.Partition), Offset: uint64(it.msg.Offset), Reason: reasonRawDropped,
		Cluster: it.batch.Cluster, Node: it.batch.Node, Slot: slotTime(it.batch.SlotStartMs), Hash: it.hash,
		Body: string(it.msg.Value), IngestedAt: now.UTC(),
	}
}
