package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gputally/gputally/internal/wire"
)

const selectBatches = `
SELECT topic, partition, offset, node, slot, rev, collector, boot_ms, seq, hash, batch, attribution_ok, observed_ms,
       CAST(origin, 'String') AS origin_name
FROM batches FINAL
WHERE cluster = {cluster:String} AND status = 'stored' AND node IN {nodes:Array(String)}
  AND toStartOfHour(slot) >= toStartOfHour({from:DateTime('UTC')}) AND slot >= {from:DateTime('UTC')}
    AND slot < {to:DateTime('UTC')}
ORDER BY slot, node, topic, partition, offset`

// batchRow is a row of the journal.
type batchRow struct {
	Topic         string    `ch:"topic"`
	Partition     uint32    `ch:"partition"`
	Offset        uint64    `ch:"offset"`
	Node          string    `ch:"node"`
	Slot          time.Time `ch:"slot"`
	Rev           uint64    `ch:"rev"`
	Collector     string    `ch:"collector"`
	BootMS        uint64    `ch:"boot_ms"`
	Seq           uint64    `ch:"seq"`
	Hash          string    `ch:"hash"`
	Batch         uint64    `ch:"batch"`
	AttributionOK uint8     `ch:"attribution_ok"`
	ObservedMS    uint32    `ch:"observed_ms"`
	Origin        string    `ch:"origin_name"`
}

// fills reports whether the batch was made from allocation records.
func (b *batchRow) fills() bool { return b.Rev == wire.FillRev }

// lost is a batch that doesn't count, with the one of its node and slot that does.
type lost struct{ row, winner *batchRow }

// readBatches lists the batches of the GPU's nodes that count, in runs, and those that
// don't. A batch that was sent twice counts once, at its first offset.
func (b *builder) readBatches(ctx context.Context, db Store) error {
	var rows []batchRow
	if err := db.Select(ctx, &rows, selectBatches, b.args()...); err != nil {
		return fmt.Errorf("read batches of GPU %s: %w", b.GPU, err)
	}
	b.Batches, b.Losers = []Batches{}, []Loser{}
	winners := map[slotKey]*batchRow{}
	for i := range rows {
		r := &rows[i]
		if key := (slotKey{r.Node, r.Slot.UnixMilli()}); b.recomputed.Winning[r.Batch] && winners[key] == nil {
			winners[key] = r
		}
	}
	open := map[string]int{}
	for i := range rows {
		r := &rows[i]
		winner := winners[slotKey{r.Node, r.Slot.UnixMilli()}]
		slot := b.slotRange(r.Slot.UnixMilli())
		n, known := open[r.Node]
		switch {
		case r != winner && winner != nil:
			b.lost = append(b.lost, lost{r, winner})
			b.Losers = append(b.Losers, Loser{
				Slot: slot.From, Node: r.Node, Partition: r.Partition, Offset: r.Offset, Collector: r.Collector,
				BootMS: r.BootMS, Seq: r.Seq, Why: whyLost(r, winner),
			})
		case known && b.Batches[n].takes(r, slot):
		default:
			open[r.Node] = len(b.Batches)
			b.Batches = append(b.Batches, Batches{
				Range: slot, Node: r.Node, Count: 1, Topic: r.Topic, Partition: r.Partition, FromOffset: r.Offset,
				ToOffset:  r.Offset,
				Collector: r.Collector, BootMS: r.BootMS, FromSeq: r.Seq, ToSeq: r.Seq, Rank: rankText(r), Origin: r.Origin,
			})
		}
	}
	return nil
}

// The owners of the GPU by batch, in order of their hashes.
const selectBatchOwners = `
SELECT batch, arraySort(groupUniqArray(owner)) AS owners FROM holds FINAL
WHERE cluster = {cluster:String} AND node IN {nodes:Array(String)} AND gpu = {gpu:String} AND owner != 0
  AND toStartOfHour(slot) >= toStartOfHour({from:DateTime('UTC')}) AND slot >= {from:DateTime('UTC')}
    AND slot < {to:DateTime('UTC')}
GROUP BY batch`

// contradictions adds to the summary what batches that don't count say about the owners, if it differs from what the
// winners say: then the rank of the batches decided who pays. A batch whose collector could not read the owners
// contradicts nothing.
func (b *builder) contradictions(ctx context.Context, db Store) error {
	others := slices.DeleteFunc(b.lost, func(l lost) bool {
		return l.row.Hash == l.winner.Hash || l.row.AttributionOK == 0
	})
	if len(others) == 0 {
		return nil
	}
	var rows []struct {
		Batch  uint64   `ch:"batch"`
		Owners []uint64 `ch:"owners"`
	}
	if err := db.Select(ctx, &rows, selectBatchOwners, b.args()...); err != nil {
		return fmt.Errorf("read owners of batches of GPU %s: %w", b.GPU, err)
	}
	owners := map[uint64][]uint64{}
	for _, r := range rows {
		owners[r.Batch] = r.Owners
	}
	others = slices.DeleteFunc(others, func(l lost) bool {
		return slices.Equal(owners[l.row.Batch], owners[l.winner.Batch])
	})
	if len(others) == 0 {
		return nil
	}
	first := others[0]
	named := owners[first.row.Batch]
	if err := b.recomputed.ReadOwners(ctx, db, named); err != nil {
		return err
	}
	var labels []string
	for _, hash := range named {
		labels = append(labels, b.label(hash))
	}
	b.Summary = append(b.Summary, fmt.Sprintf("Batches contradict each other about the owners in %s; the first that does "+
		"not count, at %s of node %s, names %s: %s.", count(int64(len(others)), "case"), clockOf(first.row.Slot.UTC()),
		first.row.Node, cmp.Or(strings.Join(labels, " and "), "no owner"), whyLost(first.row, first.winner)))
	return nil
}

// takes extends the run by the batch of the next slot: the next sequence number of the
// same boot.
func (r *Batches) takes(b *batchRow, slot Range) bool {
	if !r.To.Equal(slot.From) || r.Collector != b.Collector || r.BootMS != b.BootMS || r.Partition != b.Partition ||
		r.Topic != b.Topic || r.ToSeq+1 != b.Seq || b.Offset <= r.ToOffset || r.Rank != rankText(b) || r.Origin != b.Origin {
		return false
	}
	r.To, r.Count, r.ToOffset, r.ToSeq = slot.To, r.Count+1, b.Offset, b.Seq
	return true
}

// rankText describes the properties that rank a batch among those of its node and
// slot.
func rankText(b *batchRow) string {
	if b.fills() {
		return "made from allocation records, which rank below all others, run " + bootText(b.BootMS)
	}
	attribution := "ok"
	if b.AttributionOK == 0 {
		attribution = "failed"
	}
	return fmt.Sprintf("attribution %s, %s ms observed, boot %s", attribution, grouped(int64(b.ObservedMS)),
		bootText(b.BootMS))
}

func bootText(ms uint64) string { return stamp(time.UnixMilli(int64(ms)).UTC()) }

// whyLost names the first property in which the winner is greater.
func whyLost(b, winner *batchRow) string {
	won := fmt.Sprintf("the one at partition %d, offset %d", winner.Partition, winner.Offset)
	switch {
	case b.Hash == winner.Hash:
		return "a copy of " + won + ", counted once"
	case b.fills() && !winner.fills():
		return "made from allocation records for a slot that had no other batch then; " + won + " is from a collector"
	case b.fills() && b.BootMS != winner.BootMS:
		return fmt.Sprintf("import run of %s; %s is from a later run, %s", bootText(b.BootMS), won, bootText(winner.BootMS))
	case b.AttributionOK != winner.AttributionOK:
		return "the collector could not read its owners, but it could read those of " + won
	case b.ObservedMS != winner.ObservedMS:
		return fmt.Sprintf("observed %s ms of the slot; %s observed %s ms", grouped(int64(b.ObservedMS)), won,
			grouped(int64(winner.ObservedMS)))
	case b.BootMS != winner.BootMS && b.Rev != winner.Rev:
		return fmt.Sprintf("boot of %s; %s is from a later boot, %s", bootText(b.BootMS), won, bootText(winner.BootMS))
	case b.Collector != winner.Collector:
		return fmt.Sprintf("equal rank, and collector %q comes before %q of %s", b.Collector, winner.Collector, won)
	case b.Seq != winner.Seq:
		return fmt.Sprintf("equal rank, and seq %d is smaller than %d of %s", b.Seq, winner.Seq, won)
	}
	return "equal rank, and its hash is smaller than that of " + won
}
