package ingest

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/tables"
)

var selectSampled = `
SELECT ` + journalNames + ` FROM batches FINAL
WHERE topic = {topic:String} AND partition = {partition:UInt32} AND offset IN {offsets:Array(UInt64)}`

// Rows that stand for several offsets, one of them this one, see addSpan.
const selectCovering = `
SELECT countIf(status = 'dead' AND reason = '` + reasonSkipped + `') AS skipped FROM batches FINAL
WHERE topic = {topic:String} AND partition = {partition:UInt32} AND offset < {offset:UInt64}
  AND ` + lastOffset + ` >= {offset:UInt64}`

// checkSample reads a sample of the messages that the topic still has again, and
// compares the hash and the seal of each with the journal. The sample is drawn from
// the system's random numbers, so that whoever changed a row can't predict whether it
// will be checked.
func (d CheckDeps) checkSample(ctx context.Context, res *check.Result, offsets []broker.PartitionOffsets) error {
	if d.Message == nil || d.Sample <= 0 {
		return nil
	}
	picked, total, err := pick(offsets, d.Sample)
	if err != nil {
		return err
	}
	ids, sampled, older := meter.NewIdentities(), 0, 0
	for _, partition := range offsets {
		for chunk := range slices.Chunk(picked[partition.Partition], namesPerStatement) {
			rows, err := d.readSampled(ctx, partition.Partition, chunk)
			if err != nil {
				return err
			}
			for _, offset := range chunk {
				msg, err := d.Message(ctx, partition.Partition, int64(offset))
				if errors.Is(err, io.EOF) {
					continue // retention deleted it meanwhile
				}
				if err != nil {
					return fmt.Errorf("read offset %d of partition %d again: %w", offset, partition.Partition, err)
				}
				row, old := rows[offset], 0
				if row == nil {
					err = d.compareCovered(ctx, res, offset, msg)
				} else {
					old, err = d.compareSampled(ctx, res, row, msg, ids)
				}
				if err != nil {
					return err
				}
				sampled++
				older += old
			}
		}
	}
	res.Say(fmt.Sprintf("%d of %d messages in the topic read again", sampled, total))
	if older > 0 {
		res.NotProve(fmt.Sprintf(
			"%d of them have rows of other rules than this program's, which were not compared: gputally replay rewrites "+
				"them", older))
	}
	return nil
}

func (d CheckDeps) readSampled(ctx context.Context, partition int, offsets []uint64) (map[uint64]*tables.Batch, error) {
	rows, block := map[uint64]*tables.Batch{}, tables.NewBlock[tables.Batch]()
	if err := d.Store.Stream(ctx, block.Results(), func(n int) error {
		for i := range n {
			row := new(tables.Batch)
			block.Row(i, row)
			rows[row.Offset] = row
		}
		return nil
	}, selectSampled, store.Named("topic", broker.TopicSamples), store.Named("partition",
		uint32(partition)), store.Named("offsets", offsets)); err != nil {
		return nil, fmt.Errorf("read sampled journal rows: %w", err)
	}
	return rows, nil
}

// compareCovered handles a message without a journal row of its own. Its offset must
// be part of a span that the journal lists as unreadable or skipped.
func (d CheckDeps) compareCovered(ctx context.Context, res *check.Result, offset uint64, msg broker.Message) error {
	if msg.Bad != nil {
		return nil
	}
	var rows []struct {
		Skipped uint64 `ch:"skipped"`
	}
	if err := d.Store.Select(ctx, &rows, selectCovering, store.Named("topic", broker.TopicSamples),
		store.Named("partition", uint32(msg.Partition)), store.Named("offset", offset)); err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	if rows[0].Skipped == 0 {
		res.Fail("partition %d, offset %d: the topic has this message, but the journal has no row for it", msg.Partition,
			offset)
	}
	return nil
}

// compareSampled returns older = 1 if the batch's rows were made by other rules and
// can't be compared.
func (d CheckDeps) compareSampled(ctx context.Context, res *check.Result, r *tables.Batch, msg broker.Message,
	ids *meter.Identities,
) (older int, err error) {
	if r.Status == tables.StatusDead {
		return 0, d.compareDead(ctx, res, r, msg)
	}
	if r.AppendedAt.After(msg.Time) {
		res.Fail("partition %d, offset %d: appended at %s according to the journal, but at %s according to the topic",
			msg.Partition,
			msg.Offset,
			r.AppendedAt.UTC().Format(time.RFC3339Nano), msg.Time.UTC().Format(time.RFC3339Nano))
		return 0, nil
	}
	msg.Time, msg.FetchedAt = r.AppendedAt, time.Time{}
	it := parse(msg)
	if what := differs(r, &it); what != "" {
		res.Fail("partition %d, offset %d: %s", msg.Partition, msg.Offset, what)
		return 0, nil
	}
	it.unknown, it.late = int(r.UnknownFields), r.Status == tables.StatusLate
	if !it.late {
		it.gpus = meter.Classify(it.batch, ids)
		it.raw = rawOf(it.gpus, meter.RulesVersion)
	}
	row := journalRow(&it, r.IngestedAt)
	want := sealOf(sealText(&row), it.raw)
	if r.Seal == want {
		return 0, nil
	}
	var raw seal
	if !it.late {
		stored, err := d.rawOfBatch(ctx, r)
		if err != nil {
			return 0, err
		}
		if stored.rules != 0 && stored.rules != meter.RulesVersion {
			return 1, nil
		}
		raw = rawOf(stored.gpus, meter.RulesVersion)
	}
	if r.Seal != (seal{}) || want != sealOf(sealText(r), raw) { // a zero seal is from before seals existed
		res.Fail("partition %d, offset %d: batch %016x of node %s: its raw rows or its journal row differ from what the "+
			"message gives", msg.Partition, msg.Offset, it.id, it.batch.Node)
	}
	return 0, nil
}

func (d CheckDeps) rawOfBatch(ctx context.Context, r *tables.Batch) (*rawBatch, error) {
	hour := r.Slot.Truncate(time.Hour)
	raw, err := d.readRaw(ctx, store.Named("from", hour), store.Named("to", hour.Add(time.Hour)),
		store.Named("part", 0), store.Named("parts", 1), store.Named("batch", r.Batch))
	if err != nil {
		return nil, err
	}
	return raw.of(r.Batch), nil
}

// compareDead validates a dead message again, as of its append time. A message that an
// operator skipped may be valid, and so may one that came before its cluster was
// declared.
func (d CheckDeps) compareDead(ctx context.Context, res *check.Result, r *tables.Batch, msg broker.Message) error {
	if d.Ingester == nil || msg.Bad != nil {
		return nil
	}
	if r.Reason != reasonSkipped && r.AppendedAt.Before(msg.Time) {
		msg.Time = r.AppendedAt
	}
	msg.FetchedAt = time.Time{}
	why, err := d.Ingester.refuses(ctx, msg)
	if err != nil || why != "" {
		return err
	}
	if r.Reason == reasonSkipped || r.Reason == reasonCluster {
		res.Note(fmt.Sprintf("partition %d, offset %d: dead (%s), but valid now: gputally replay takes it in",
			msg.Partition, msg.Offset, r.Reason))
		return nil
	}
	res.Fail("partition %d, offset %d: dead in the journal (%q), but valid; if limits were raised since, gputally "+
		"replay takes it in", msg.Partition, msg.Offset, r.Reason)
	return nil
}

const namesPerStatement = 2000

// pick draws up to n offsets at random, without repetition, and returns them by
// partition, ascending.
func pick(offsets []broker.PartitionOffsets, n int) (picked map[int][]uint64, total int64, err error) {
	var seed [32]byte
	if _, err := crand.Read(seed[:]); err != nil {
		return nil, 0, fmt.Errorf("choose a random sample of messages: %w", err)
	}
	random := rand.New(rand.NewChaCha8(seed))
	for _, o := range offsets {
		total += max(o.Committed-o.First, 0)
	}
	chosen := map[int64]bool{}
	for int64(len(chosen)) < min(int64(n), total) {
		chosen[random.Int64N(total)] = true
	}
	picked = map[int][]uint64{}
	begin := int64(0)
	for _, o := range offsets {
		for at := range chosen {
			if at >= begin && at < begin+o.Committed-o.First {
				picked[o.Partition] = append(picked[o.Partition], uint64(o.First+at-begin))
			}
		}
		begin += max(o.Committed-o.First, 0)
		slices.Sort(picked[o.Partition])
	}
	return picked, total, nil
}

// differs describes how the journal row contradicts the message, or returns "".
func differs(r *tables.Batch, it *item) string {
	switch {
	case r.Status == tables.StatusHole:
		return "the journal says that it was deleted before it was read, but the topic still has it"
	case it.reason != "":
		return fmt.Sprintf("the journal says that it was stored, but it is invalid: %s", it.reason)
	case it.hash != r.Hash:
		return fmt.Sprintf("the journal has hash %x, the message %x", r.Hash, it.hash)
	}
	return ""
}
