package ingest

import (
	"cmp"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/wire"
)

// status of a journal row. Values are stored.
const (
	statusStored = 1
	statusDead   = 2
	statusHole   = 3
	statusLate   = 4
)

// journalNames are the columns in the order of input.
const journalNames = `topic, partition, offset, status, reason, cluster, node, slot, slot_ms, collector, boot_ms, seq, rev, batch, hash, seal,
       attribution_ok, enumeration_complete, observed_ms, observed, gpus, hold_rows, energy_mj, origin, counted, sampled, spooled, dropped,
       spool_dropped, prev_boot_ms, prev_seq, gap_boot, gap_from, gap_to, unknown_fields, appended_at, ingested_at`

// journalColumns builds a block of table batches: one row per offset (C3).
type journalColumns struct {
	topic, cluster, node, collector                            *proto.ColLowCardinality[string]
	partition, slotMS, observedMS, holdRows, unknown           proto.ColUInt32
	offset, bootMS, seq, rev, batch                            proto.ColUInt64
	sampled, spooled, dropped, spoolDropped, prevBoot, prevSeq proto.ColUInt64
	status, origin                                             proto.ColEnum8
	reason                                                     proto.ColStr
	slot                                                       proto.ColDateTime
	hash, seal                                                 proto.ColFixedStr
	attributionOK, complete, counted                           proto.ColUInt8
	observed                                                   *proto.ColArr[uint32]
	gpus                                                       *proto.ColArr[string]
	energy                                                     proto.ColInt64
	gapBoot, gapFrom, gapTo                                    *proto.ColArr[uint64]
	appendedAt, ingestedAt                                     *proto.ColDateTime64
}

func newJournalColumns() *journalColumns {
	return &journalColumns{
		topic: lowCardinality(), cluster: lowCardinality(), node: lowCardinality(), collector: lowCardinality(),
		hash: proto.ColFixedStr{Size: 32}, seal: proto.ColFixedStr{Size: 16},
		observed: new(proto.ColUInt32).Array(), gpus: lowCardinality().Array(),
		gapBoot: new(proto.ColUInt64).Array(), gapFrom: new(proto.ColUInt64).Array(), gapTo: new(proto.ColUInt64).Array(),
		appendedAt: new(proto.ColDateTime64).WithPrecision(proto.PrecisionMilli),
		ingestedAt: new(proto.ColDateTime64).WithPrecision(proto.PrecisionMilli),
	}
}

// add journals a message, and seals the row.
func (c *journalColumns) add(it *item, now time.Time) {
	b, status := it.batch, it.status()
	if status == statusDead || status == statusHole {
		b = &wire.Batch{}
	}
	if it.last > 0 {
		b.Gaps = []*wire.SeqGap{{FromSeq: uint64(it.msg.Offset), ToSeq: uint64(it.last)}}
	}
	id := it.id
	if status != statusStored {
		id = 0
	}
	c.position(it.msg.Topic, it.msg.Partition, it.msg.Offset, status, it.why())
	c.cluster.Append(b.Cluster)
	c.node.Append(b.Node)
	c.slot.Append(slotTime(b.SlotStartMs))
	c.slotMS.Append(uint32(b.SlotMs))
	c.collector.Append(b.Collector)
	c.bootMS.Append(uint64(b.BootMs))
	c.seq.Append(b.Seq)
	c.rev.Append(wire.Rev(b))
	c.batch.Append(id)
	c.hash.Append(it.hash[:])
	c.attributionOK.Append(flag(wire.AttributionOK(b)))
	c.complete.Append(flag(wire.EnumerationComplete(b)))
	c.observedMS.Append(uint32(wire.ObservedMS(b)))
	c.observed.Append(observedParts(b))
	c.gpus.Append(uuids(b))
	c.holdRows.Append(uint32(it.rows()))
	c.energy.Append(energyOf(b))
	c.origin.Append(origin(b))
	c.counters(b)
	c.unknown.Append(uint32(it.unknown))
	c.appendedAt.Append(it.msg.Time.UTC())
	c.ingestedAt.Append(now.UTC())
	sum := sealOf(c.text(c.offset.Rows()-1), it.raw)
	c.seal.Append(sum[:])
}

func (c *journalColumns) counters(b *wire.Batch) {
	n := b.GetCounters()
	var dropped uint64
	for _, d := range n.GetDropped() {
		dropped += d
	}
	c.counted.Append(flag(n != nil))
	c.sampled.Append(n.GetSampled())
	c.spooled.Append(n.GetSpooled())
	c.dropped.Append(dropped)
	c.spoolDropped.Append(n.GetSpoolDropped())
	c.prevBoot.Append(uint64(b.GetPredecessor().GetBootMs()))
	c.prevSeq.Append(b.GetPredecessor().GetLastSeq())
	var boots, from, to []uint64
	for _, g := range b.Gaps {
		boots = append(boots, uint64(cmp.Or(g.BootMs, b.BootMs)))
		from, to = append(from, g.FromSeq), append(to, g.ToSeq)
	}
	c.gapBoot.Append(boots)
	c.gapFrom.Append(from)
	c.gapTo.Append(to)
}

// spanRows is the longest run of offsets that nobody can read which has a row of
// each. A longer one is one row, whose gap_from and gap_to are its first and last
// offset: a topic without its beginning, or a batch that claims to be of 2^31
// records, must not fill memory and disk.
const spanRows = 10_000

// addSpan journals the offsets [from, to) of a message's partition as holes, or dead.
func (c *journalColumns) addSpan(msg broker.Message, from, to int64, status int, reason string, now time.Time) {
	it := item{msg: broker.Message{Topic: msg.Topic, Partition: msg.Partition, Time: msg.Time}, reason: reason, hole: status == statusHole}
	step := int64(1)
	if to-from > spanRows {
		it.last, step = to-1, to-from
	}
	for it.msg.Offset = from; it.msg.Offset < to; it.msg.Offset += step {
		c.add(&it, now)
	}
}

func (c *journalColumns) position(topic string, partition int, offset int64, status int, reason string) {
	c.topic.Append(topic)
	c.partition.Append(uint32(partition))
	c.offset.Append(uint64(offset))
	c.status.Append(proto.Enum8(status))
	c.reason.Append(reason)
}

func origin(b *wire.Batch) proto.Enum8 { return proto.Enum8(max(b.Origin, wire.Origin_ORIGIN_LIVE)) }

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// observedParts is empty when all of the slot was seen, and for a slot of
// which nothing was: observed_ms tells the two apart.
func observedParts(b *wire.Batch) []uint32 {
	var out []uint32
	for _, o := range b.Observed {
		out = append(out, uint32(o.FromMs), uint32(o.ToMs))
	}
	return out
}

// energyOf is the movement of all counters that the batch tells of; what no board
// can take is absent here as in the rows (C9).
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

func (c *journalColumns) input() proto.Input {
	return proto.Input{
		{Name: "topic", Data: c.topic},
		{Name: "partition", Data: &c.partition},
		{Name: "offset", Data: &c.offset},
		{Name: "status", Data: proto.Wrap(&c.status, `'stored'=1`, `'dead'=2`, `'hole'=3`, `'late'=4`)},
		{Name: "reason", Data: &c.reason},
		{Name: "cluster", Data: c.cluster},
		{Name: "node", Data: c.node},
		{Name: "slot", Data: &c.slot},
		{Name: "slot_ms", Data: &c.slotMS},
		{Name: "collector", Data: c.collector},
		{Name: "boot_ms", Data: &c.bootMS},
		{Name: "seq", Data: &c.seq},
		{Name: "rev", Data: &c.rev},
		{Name: "batch", Data: &c.batch},
		{Name: "hash", Data: &c.hash},
		{Name: "seal", Data: &c.seal},
		{Name: "attribution_ok", Data: &c.attributionOK},
		{Name: "enumeration_complete", Data: &c.complete},
		{Name: "observed_ms", Data: &c.observedMS},
		{Name: "observed", Data: c.observed},
		{Name: "gpus", Data: c.gpus},
		{Name: "hold_rows", Data: &c.holdRows},
		{Name: "energy_mj", Data: &c.energy},
		{Name: "origin", Data: proto.Wrap(&c.origin, `'live'=1`, `'simulated'=2`, `'replay'=3`, `'import'=4`)},
		{Name: "counted", Data: &c.counted},
		{Name: "sampled", Data: &c.sampled},
		{Name: "spooled", Data: &c.spooled},
		{Name: "dropped", Data: &c.dropped},
		{Name: "spool_dropped", Data: &c.spoolDropped},
		{Name: "prev_boot_ms", Data: &c.prevBoot},
		{Name: "prev_seq", Data: &c.prevSeq},
		{Name: "gap_boot", Data: c.gapBoot},
		{Name: "gap_from", Data: c.gapFrom},
		{Name: "gap_to", Data: c.gapTo},
		{Name: "unknown_fields", Data: &c.unknown},
		{Name: "appended_at", Data: c.appendedAt},
		{Name: "ingested_at", Data: c.ingestedAt},
	}
}

// results are all columns, to be read by journalNames.
func (c *journalColumns) results() proto.Results {
	var out proto.Results
	for _, col := range c.input() {
		out = append(out, proto.ResultColumn{Name: col.Name, Data: col.Data.(proto.ColResult)})
	}
	return out
}
