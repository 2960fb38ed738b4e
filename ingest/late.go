package ingest

import (
	"time"

	"github.com/gputally/gputally/internal/tables"
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

// lateRow keeps a message whole, since part of a batch would be of no use to an
// adjustment.
func lateRow(it *item, now time.Time) tables.Late {
	return tables.Late{
		Topic: it.msg.Topic, Partition: uint32(it.msg.Partition), Offset: uint64(it.msg.Offset), Reason: reasonRawDropped,
		Cluster: it.batch.Cluster, Node: it.batch.Node, Slot: slotTime(it.batch.SlotStartMs), Hash: it.hash,
		Body:       string(it.msg.Value),
		IngestedAt: now.UTC(),
	}
}
