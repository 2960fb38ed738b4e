package ingest

import (
	"time"

	"github.com/ClickHouse/ch-go/proto"
)

// reasonRawDropped is why a batch is late: its hours can't be recomputed (R3).
const reasonRawDropped = "raw_dropped"

// why is the reason that the journal gives, empty for a stored batch.
func (it *item) why() string {
	if it.late {
		return reasonRawDropped
	}
	return it.reason
}

// lateColumns builds a block of late_unprocessed: the message whole, since part
// of a batch would be of no use to an adjustment.
type lateColumns struct {
	topic, reason, cluster, node *proto.ColLowCardinality[string]
	partition                    proto.ColUInt32
	offset                       proto.ColUInt64
	slot                         proto.ColDateTime
	hash                         proto.ColFixedStr
	body                         proto.ColStr
	ingestedAt                   *proto.ColDateTime64
}

func newLateColumns() *lateColumns {
	return &lateColumns{
		topic: lowCardinality(), reason: lowCardinality(), cluster: lowCardinality(), node: lowCardinality(),
		hash: proto.ColFixedStr{Size: 32}, ingestedAt: new(proto.ColDateTime64).WithPrecision(proto.PrecisionMilli),
	}
}

func (c *lateColumns) add(it *item, now time.Time) {
	c.topic.Append(it.msg.Topic)
	c.partition.Append(uint32(it.msg.Partition))
	c.offset.Append(uint64(it.msg.Offset))
	c.reason.Append(reasonRawDropped)
	c.cluster.Append(it.batch.Cluster)
	c.node.Append(it.batch.Node)
	c.slot.Append(slotTime(it.batch.SlotStartMs))
	c.hash.Append(it.hash[:])
	c.body.AppendBytes(it.msg.Value)
	c.ingestedAt.Append(now.UTC())
}

func (c *lateColumns) input() proto.Input {
	return proto.Input{
		{Name: "topic", Data: c.topic},
		{Name: "partition", Data: &c.partition},
		{Name: "offset", Data: &c.offset},
		{Name: "reason", Data: c.reason},
		{Name: "cluster", Data: c.cluster},
		{Name: "node", Data: c.node},
		{Name: "slot", Data: &c.slot},
		{Name: "hash", Data: &c.hash},
		{Name: "body", Data: &c.body},
		{Name: "ingested_at", Data: c.ingestedAt},
	}
}
