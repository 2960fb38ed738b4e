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

	"github.com/gpuledger/gpuledger/internal/broker"
	"github.com/gpuledger/gpuledger/internal/check"
	"github.com/gpuledger/gpuledger/internal/meter"
	"github.com/gpuledger/gpuledger/internal/store"
)

const selectSampled = `
SELECT offset, CAST(status, 'Int8') AS status, hash, seal, batch, slot FROM batches FINAL
WHERE topic = {topic:String} AND partition = {partition:UInt32} AND offset IN {offsets:Array(UInt64)}`

type sampledRow struct {
	Offset uint64    `ch:"offset"`
	Status int8      `ch:"status"`
	Hash   string    `ch:"hash"`
	Seal   string    `ch:"seal"`
	Batch  uint64    `ch:"batch"`
	Slot   time.Time `ch:"slot"`
}

// checkSample reads some of the messages again that the topic still has, and
// holds hash and seal of each against the journal. Which ones is drawn from the
// system's random numbers, so that who changed a row can't tell whether it will
// be looked at.
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
			var rows []sampledRow
			if err := d.Store.Select(ctx, &rows, selectSampled, store.Named("topic", broker.TopicSamples),
				store.Named("partition", uint32(partition.Partition)), store.Named("offsets", chunk)); err != nil {
				return fmt.Errorf("read sampled journal rows: %w", err)
			}
			for i := range rows {
				msg, err := d.Message(ctx, partition.Partition, int64(rows[i].Offset))
				if errors.Is(err, io.EOF) {
					continue // retention took it meanwhile
				}
				if err != nil {
					return fmt.Errorf("read offset %d of partition %d again: %w", rows[i].Offset, partition.Partition, err)
				}
				old, err := d.compareSampled(ctx, res, &rows[i], msg, ids)
				if err != nil {
					return err
				}
				sampled++
				older += old
			}
		}
	}
	res.Say(fmt.Sprintf("sampled %d of %d messages that the topic has", sampled, total))
	if older > 0 {
		res.NotProve(fmt.Sprintf("the rows of %d of them are of other rules than today's and were not compared: replay them", older))
	}
	return nil
}

// compareSampled returns 1 where rows can't be compared, for other rules made them.
func (d CheckDeps) compareSampled(ctx context.Context, res *check.Result, r *sampledRow, msg broker.Message, ids *meter.Identities) (older int, err error) {
	it := parse(msg)
	if what := r.differs(&it); what != "" || r.Status != statusStored {
		if what != "" {
			res.Fail("partition %d, offset %d: %s", msg.Partition, r.Offset, what)
		}
		return 0, nil
	}
	it.gpus = meter.Settle(it.batch, ids)
	f := factsOf(&it)
	want, has := sealOf(&f, it.gpus, meter.RulesVersion), seal([]byte(r.Seal))
	if has == want {
		return 0, nil
	}
	hour := r.Slot.Truncate(time.Hour)
	raw, err := d.readRaw(ctx, store.Named("from", hour), store.Named("to", hour.Add(time.Hour)),
		store.Named("part", 0), store.Named("parts", 1), store.Named("batch", r.Batch))
	if err != nil {
		return 0, err
	}
	stored := raw.of(r.Batch)
	switch {
	case stored.rules != 0 && stored.rules != meter.RulesVersion:
		return 1, nil
	case has == seal{} && want == sealOf(&f, stored.gpus, meter.RulesVersion): // from before there were seals
		return 0, nil
	}
	res.Fail("partition %d, offset %d: batch %016x of node %s: its rows or its journal row are not what the message comes to", msg.Partition, r.Offset, r.Batch, f.node)
	return 0, nil
}

const namesPerStatement = 2000

// pick draws offsets by partition, ascending, without repetition.
func pick(offsets []broker.PartitionOffsets, n int) (picked map[int][]uint64, total int64, err error) {
	var seed [32]byte
	if _, err := crand.Read(seed[:]); err != nil {
		return nil, 0, fmt.Errorf("draw a sample: %w", err)
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

// differs says what the journal has otherwise than the message. Whether the clock
// or a cluster's slots once refused a message can't be told again.
func (r *sampledRow) differs(it *item) string {
	switch {
	case r.Status == statusHole:
		return "the journal says that it was deleted before it was read, and the topic has it"
	case r.Status == statusDead:
		return ""
	case it.reason != "":
		return fmt.Sprintf("the journal took it, it can't be used: %s", it.reason)
	case string(it.hash[:]) != r.Hash:
		return fmt.Sprintf("the journal says hash %x, the message has %x", r.Hash, it.hash)
	}
	return ""
}
