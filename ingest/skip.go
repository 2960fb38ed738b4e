package ingest

import (
	"context"
	"fmt"
	"time"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/tables"
)

// reasonSkipped is the reason of offsets that an operator skipped.
const reasonSkipped = "skipped"

// Unjournalled returns an error if any of the offsets [from, to) of a partition of the
// samples topic is in the journal; it names the first one.
func Unjournalled(ctx context.Context, db Store, partition int, from, to int64) error {
	have, err := readJournalled(ctx, db, broker.TopicSamples, partition, from, to)
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	if len(have) > 0 {
		return fmt.Errorf("offset %d of partition %d is in the journal already, so it can't be skipped",
			max(int64(have[0].First), from), partition)
	}
	return nil
}

// Skip adds the offsets [from, to) of a partition to the journal as dead, skipped by
// an operator. The messages themselves are not kept.
func Skip(ctx context.Context, db Store, partition int, from, to int64, now time.Time) error {
	rows := newJournalBlock()
	rows.addSpan(broker.Message{Topic: broker.TopicSamples, Partition: partition, Time: now}, from, to, tables.StatusDead,
		reasonSkipped, now)
	if err := db.Insert(ctx, "batches", rows.Input()); err != nil {
		return fmt.Errorf("write skipped offsets to the journal: %w", err)
	}
	return nil
}
