package ingest

import (
	"context"
	"fmt"
	"time"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/tables"
)

// reasonSkipped is why offsets are dead that an operator passed over.
const reasonSkipped = "skipped"

// Unjournalled says of the offsets [from, to) of a partition of the samples topic
// that none is in the journal; the error names the first that is.
func Unjournalled(ctx context.Context, db Store, partition int, from, to int64) error {
	have, err := readJournalled(ctx, db, broker.TopicSamples, partition, from, to)
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	if len(have) > 0 {
		return fmt.Errorf("offset %d of partition %d is in the journal already", max(int64(have[0].First), from), partition)
	}
	return nil
}

// Skip journals the offsets [from, to) of a partition as dead, which an operator has
// passed over. Nothing else is kept of them.
func Skip(ctx context.Context, db Store, partition int, from, to int64, now time.Time) error {
	rows := newJournalBlock()
	rows.addSpan(broker.Message{Topic: broker.TopicSamples, Partition: partition, Time: now}, from, to, tables.StatusDead,
		reasonSkipped, now)
	if err := db.Insert(ctx, "batches", rows.Input()); err != nil {
		return fmt.Errorf("journal skipped offsets: %w", err)
	}
	return nil
}
