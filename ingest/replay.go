package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/tables"
)

// MessageReader returns messages of one partition in offset order, and io.EOF after
// the last one.
type MessageReader interface {
	Read(ctx context.Context, limit int) ([]broker.Message, error)
}

// Replayed counts the messages of a replay by outcome.
type Replayed struct {
	Messages int64 // processed again: decoded, classified, inserted and journalled
	Stored   int64 // of them, stored as raw rows
	Dead     int64 // of them, invalid
	Kept     int64 // of them, left unchanged, see Replay
	Changed  int64 // of them, with a journal row that is new or differs from before
	Cleared  int64 // batches written anew because raw held rows that don't belong to them
}

// Add adds the counts of another replay.
func (r *Replayed) Add(o Replayed) {
	r.Messages += o.Messages
	r.Stored += o.Stored
	r.Dead += o.Dead
	r.Kept += o.Kept
	r.Changed += o.Changed
	r.Cleared += o.Cleared
}

// Rewriter is the part of ClickHouse that a replay needs beyond an ingester's.
type Rewriter interface {
	Store
	Alter(ctx context.Context, table, commands string, args ...any) error
}

// Replay decodes, classifies, inserts and journals messages again that were ingested
// before: lost raw rows come back, rows of older rules and journal rows are replaced.
// It commits nothing, so it may run beside ingesters of the group, which would write
// the same rows of the same messages. It needs no Consumer. done, unless nil, is
// called with each offset reached. After a crash at any point, running the replay
// again completes it.
//
// The journal only grows (R5): a stored batch is left unchanged if its raw was dropped
// by retention (R3), or if it would be refused now. A message that was dead and is
// valid now counts from now on.
//
// If raw holds rows of a batch that don't belong to it (of older rules, or inserted by
// hand), all its rows are deleted and written again; meanwhile the ledger refuses to
// recompute its hour.
func (in *Ingester) Replay(ctx context.Context, from MessageReader, db Rewriter,
	done func(offset int64),
) (Replayed, error) {
	var sum Replayed
	kept := map[string]int64{}
	defer func() {
		for why, n := range kept {
			in.deps.Log.Warn("replay left batches unchanged that are stored already", "why", why, "messages", n)
		}
	}()
	for {
		msgs, err := from.Read(ctx, in.cfg.ChunkRecords)
		if errors.Is(err, io.EOF) {
			return sum, nil
		}
		if err != nil {
			return sum, fmt.Errorf("read messages to replay: %w", err)
		}
		for chunk := range chunksOf(msgs, in.cfg.ChunkBytes) {
			n, err := in.replay(ctx, chunk, db, kept)
			if err != nil {
				return sum, err
			}
			sum.Add(n)
			if done != nil {
				done(chunk[len(chunk)-1].Offset)
			}
		}
	}
}

// replay processes one fetch. It counts the batches it leaves unchanged in kept, by
// reason.
func (in *Ingester) replay(ctx context.Context, msgs []broker.Message, db Rewriter,
	kept map[string]int64,
) (Replayed, error) {
	items, err := in.classify(ctx, msgs)
	if err != nil {
		return Replayed{}, err
	}
	was, err := in.journalled(ctx, items)
	if err != nil {
		return Replayed{}, err
	}
	sum := Replayed{Messages: int64(len(items))}
	items = slices.DeleteFunc(items, func(it item) bool {
		keep := it.status() != tables.StatusStored && was[it.msg.Offset].usable()
		if keep {
			sum.Kept++
			kept[it.why()]++
		}
		return keep
	})
	for i := range items {
		it := &items[i]
		it.lettered = it.status() == tables.StatusDead && was[it.msg.Offset].Status == tables.StatusDead
		switch it.status() {
		case tables.StatusStored:
			sum.Stored++
		case tables.StatusDead:
			sum.Dead++
		}
		if was[it.msg.Offset].Status != it.status() {
			sum.Changed++
		}
	}
	for run := range byWeeks(items) {
		if err := in.insert(ctx, run); err != nil {
			return sum, err
		}
		cleared, err := in.clear(ctx, run, db)
		if err != nil {
			return sum, err
		}
		sum.Cleared += cleared
		if err := in.journal(ctx, run); err != nil {
			return sum, err
		}
	}
	return sum, in.forgetDead(ctx, items, was, db)
}

// journalledRow is a message's row in the journal. One offset has two rows, one of
// them dead, after a replay that was interrupted.
type journalledRow struct {
	Offset uint64 `ch:"offset"`
	Status int8   `ch:"status"`
}

func (r journalledRow) usable() bool {
	return r.Status == tables.StatusStored || r.Status == tables.StatusLate
}

const selectStatuses = `
SELECT offset, CAST(status, 'Int8') AS status FROM batches FINAL
WHERE topic = {topic:String} AND partition = {partition:UInt32} AND offset >= {from:UInt64} AND offset <= {to:UInt64}`

// journalled reads the journal rows of messages of one partition, by offset. If an
// offset has two rows, it returns the one that doesn't match the message any more.
func (in *Ingester) journalled(ctx context.Context, items []item) (map[int64]journalledRow, error) {
	var rows []journalledRow
	first, last := items[0].msg, items[len(items)-1].msg
	if err := in.retry(ctx, "journalled", func(ctx context.Context) error {
		rows = rows[:0]
		return in.deps.Store.Select(ctx, &rows, selectStatuses, store.Named("topic", first.Topic),
			store.Named("partition", uint32(first.Partition)), store.Named("from", uint64(first.Offset)),
			store.Named("to", uint64(last.Offset)))
	}); err != nil {
		return nil, err
	}
	now := make(map[int64]bool, len(items))
	for i := range items {
		now[items[i].msg.Offset] = items[i].status() != tables.StatusDead
	}
	was := make(map[int64]journalledRow, len(rows))
	for _, r := range rows {
		offset := int64(r.Offset)
		if _, twice := was[offset]; !twice || r.usable() != now[offset] {
			was[offset] = r
		}
	}
	return was, nil
}

const selectFound = `
SELECT batch, count() AS rows FROM holds FINAL
WHERE toStartOfHour(slot) >= toStartOfHour({from:DateTime('UTC')}) AND slot >= {from:DateTime('UTC')}
  AND slot <= {to:DateTime('UTC')}
  AND batch IN {batches:Array(UInt64)}
GROUP BY batch`

// Waits until every replica has deleted the rows.
const deleteHolds = `
DELETE WHERE batch IN {batches:Array(UInt64)} AND slot >= {from:DateTime('UTC')} AND slot <= {to:DateTime('UTC')}
SETTINGS mutations_sync = 2`

// clearBatches is the number of batches counted by one statement.
const clearBatches = 1000

// clear compares the number of raw rows of each batch, which were just written, with
// the journal. It deletes and writes again those with too many.
func (in *Ingester) clear(ctx context.Context, items []item, db Rewriter) (cleared int64, err error) {
	var stored []item
	for i := range items {
		if items[i].status() == tables.StatusStored {
			stored = append(stored, items[i])
		}
	}
	for part := range slices.Chunk(stored, clearBatches) {
		wrong, err := in.overfull(ctx, part)
		if err != nil {
			return cleared, err
		}
		if len(wrong) == 0 {
			continue
		}
		in.deps.Log.Warn("raw holds rows that don't belong to their batches: these batches are deleted and written again",
			"batches", len(wrong))
		ids, from, to := idsOf(wrong)
		if err := in.retry(ctx, "delete_holds", func(ctx context.Context) error {
			return db.Alter(ctx, "holds", deleteHolds, store.Named("batches", ids), store.Named("from", from),
				store.Named("to", to))
		}); err != nil {
			return cleared, err
		}
		if err := in.insert(ctx, wrong); err != nil {
			return cleared, err
		}
		cleared += int64(len(wrong))
	}
	return cleared, nil
}

// overfull returns the items whose batch has too many raw rows. Too few is an error:
// they were just inserted.
func (in *Ingester) overfull(ctx context.Context, items []item) (wrong []item, err error) {
	ids, from, to := idsOf(items)
	var rows []struct {
		Batch uint64 `ch:"batch"`
		Rows  uint64 `ch:"rows"`
	}
	if err := in.retry(ctx, "count_holds", func(ctx context.Context) error {
		rows = rows[:0]
		return in.deps.Store.Select(ctx, &rows, selectFound, store.Named("batches", ids), store.Named("from", from),
			store.Named("to", to))
	}); err != nil {
		return nil, err
	}
	found := make(map[uint64]int, len(rows))
	for _, r := range rows {
		found[r.Batch] = int(r.Rows)
	}
	for i := range items {
		switch n, promised := found[items[i].id], items[i].rows(); {
		case n > promised:
			wrong = append(wrong, items[i])
		case n < promised:
			return nil, fmt.Errorf("offset %d of partition %d: only %d of %d rows of batch %016x exist after they were inserted",
				items[i].msg.Offset, items[i].msg.Partition, n, promised, items[i].id)
		}
	}
	return wrong, nil
}

// idsOf returns the items' batch ids, and their first and last slot.
func idsOf(items []item) (ids []uint64, from, to time.Time) {
	first, last := items[0].batch.SlotStartMs, items[0].batch.SlotStartMs
	for i := range items {
		ids = append(ids, items[i].id)
		first, last = min(first, items[i].batch.SlotStartMs), max(last, items[i].batch.SlotStartMs)
	}
	return ids, slotTime(first), slotTime(last)
}

// The journal row of a dead message names no slot, so its key differs from that of the
// same message as a batch: the dead row must be deleted.
const deleteDead = `
DELETE WHERE topic = {topic:String} AND partition = {partition:UInt32} AND offset IN {offsets:Array(UInt64)}
  AND status IN ('dead', 'hole') SETTINGS mutations_sync = 2`

// forgetDead deletes the dead journal rows of messages that are not dead any more.
func (in *Ingester) forgetDead(ctx context.Context, items []item, was map[int64]journalledRow, db Rewriter) error {
	var revived []uint64
	for i := range items {
		before, known := was[items[i].msg.Offset]
		if known && !before.usable() && items[i].status() != tables.StatusDead {
			revived = append(revived, uint64(items[i].msg.Offset))
		}
	}
	if len(revived) == 0 {
		return nil
	}
	msg := items[0].msg
	return in.retry(ctx, "delete_journal", func(ctx context.Context) error {
		return db.Alter(ctx, "batches", deleteDead, store.Named("topic", msg.Topic),
			store.Named("partition", uint32(msg.Partition)), store.Named("offsets", revived))
	})
}
