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

// MessageReader gives messages of one partition in offset order, and io.EOF
// after the last one.
type MessageReader interface {
	Read(ctx context.Context, limit int) ([]broker.Message, error)
}

// Replayed counts what a replay did.
type Replayed struct {
	Messages int64 // taken through decode, settle, insert and journal again
	Stored   int64 // of them, with raw rows
	Dead     int64 // of them, not usable
	Kept     int64 // of them, left as they are: see Replay
	Changed  int64 // of them, journalled otherwise than before, or for the first time
	Cleared  int64 // batches whose raw held rows that they don't have, and was written anew
}

// Add sums two replays up.
func (r *Replayed) Add(o Replayed) {
	r.Messages += o.Messages
	r.Stored += o.Stored
	r.Dead += o.Dead
	r.Kept += o.Kept
	r.Changed += o.Changed
	r.Cleared += o.Cleared
}

// Rewriter is what a replay needs of ClickHouse beyond an ingester's needs.
type Rewriter interface {
	Store
	Alter(ctx context.Context, table, commands string, args ...any) error
}

// Replay takes messages that were ingested before through decode, settle,
// insert and journal again: raw rows that were lost come back, those of older
// rules are replaced, the journal's rows are replaced. Nothing is committed, so
// that it may run beside ingesters of the group; what they write of the same
// messages are the same rows. It needs no Consumer. done, which may be nil, is
// told the offset reached. Killed anywhere, the same replay makes it whole.
//
// The journal only grows (R5): a batch that counts already is left as it is where
// its raw was dropped on purpose (R3), or where it would be refused now. A message
// that was dead and can be used now counts from now on.
//
// A batch whose raw holds rows that it doesn't have (of older rules, or put
// there by somebody) loses them all and is written again; in between the ledger
// refuses to recompute its hour.
func (in *Ingester) Replay(ctx context.Context, from MessageReader, db Rewriter,
	done func(offset int64)) (Replayed, error) {
	var sum Replayed
	kept := map[string]int64{}
	defer func() {
		for why, n := range kept {
			in.deps.Log.Warn("batches count already and are left as they are", "why", why, "messages", n)
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

// replay adds to kept, by reason, what it leaves as it is.
func (in *Ingester) replay(ctx context.Context, msgs []broker.Message, db Rewriter,
	kept map[string]int64) (Replayed, error) {
	items, err := in.settle(ctx, msgs)
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
		it.told = it.status() == tables.StatusDead && was[it.msg.Offset].Status == tables.StatusDead
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

// journalledRow is what the journal says of a message; two rows of one offset, one
// of them dead, are what a replay leaves that was killed.
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

// journalled is what the journal says of the messages, by offset; they are of
// one partition. Where it has two rows of an offset, it is the one that the
// message no longer has.
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

// Waits until the rows are gone on every replica.
const deleteHolds = `
DELETE WHERE batch IN {batches:Array(UInt64)} AND slot >= {from:DateTime('UTC')} AND slot <= {to:DateTime('UTC')}
SETTINGS mutations_sync = 2`

// clearBatches is how many batches are counted by one statement.
const clearBatches = 1000

// clear holds the raw of the batches, which was just written, against what they
// promise, and writes those anew that hold more than that.
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
		in.deps.Log.Warn("raw holds rows that its batches don't have; they are written anew", "batches", len(wrong))
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

// overfull are the items of whose batch more rows are found than promised. It
// is an error where fewer are: they were inserted just now.
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
			return nil, fmt.Errorf("offset %d of partition %d: %d of %d rows of batch %016x are found after they were inserted",
				items[i].msg.Offset, items[i].msg.Partition, n, promised, items[i].id)
		}
	}
	return wrong, nil
}

// idsOf are the items' batches, and the first and the last slot of them.
func idsOf(items []item) (ids []uint64, from, to time.Time) {
	first, last := items[0].batch.SlotStartMs, items[0].batch.SlotStartMs
	for i := range items {
		ids = append(ids, items[i].id)
		first, last = min(first, items[i].batch.SlotStartMs), max(last, items[i].batch.SlotStartMs)
	}
	return ids, slotTime(first), slotTime(last)
}

// A dead message's journal row names no slot, so its key is another one than
// that of the batch: the row of what it no longer is has to go.
const deleteDead = `
DELETE WHERE topic = {topic:String} AND partition = {partition:UInt32} AND offset IN {offsets:Array(UInt64)}
  AND status IN ('dead', 'hole') SETTINGS mutations_sync = 2`

// forgetDead removes the journal's rows of messages that were dead before and
// are not now.
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
