package ingest

import (
	"time"

	"github.com/gputally/gputally/internal/tables"
)

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

// lateRow keeps the whole message, because a manual adjustment needs all of it.
func lateRow(it *item, now time.Time) tables.Late {
	return tables.Late{
		Topic: it.msg.Topic, Partition: uint32(it.msg.Partition), Offset: uint64(it.msg.Offset), Reason: reasonRawDropped,
		Cluster: it.batch.Cluster, Node: it.batch.Node, Slot: slotTime(it.batch.SlotStartMs), Hash: it.hash,
		Body:       string(it.msg.Value),
		IngestedAt: now.UTC(),
	}
}
