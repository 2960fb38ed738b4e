package ingest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/gpuledger/gpuledger/ingest/ledger"
	"github.com/gpuledger/gpuledger/internal/check"
	"github.com/gpuledger/gpuledger/internal/meter"
	"github.com/gpuledger/gpuledger/internal/store"
	"github.com/gpuledger/gpuledger/internal/wire"
)

// sealBatches is how many journal rows are held against their rows at once: a
// few dozen megabytes.
const sealBatches = 20_000

const selectSealHours = `
SELECT toStartOfHour(slot) AS hour, count() AS batches FROM batches FINAL
WHERE status = 'stored' AND toString(toMonday(slot)) NOT IN {dropped:Array(String)}
GROUP BY hour ORDER BY hour`

const selectSealed = `
SELECT cluster, node, slot, slot_ms, collector, boot_ms, seq, rev, batch, hash, seal, attribution_ok, enumeration_complete,
       observed_ms, observed, gpus, energy_mj, CAST(origin, 'Int8') AS origin
FROM batches FINAL
WHERE status = 'stored' AND toStartOfHour(slot) >= {from:DateTime('UTC')} AND toStartOfHour(slot) < {to:DateTime('UTC')}
  AND cityHash64(node) % {parts:UInt64} = {part:UInt64}`

const selectSealedHolds = `
SELECT batch, gpu, model, slices, kind, rules, leaf, owner, CAST(bucket, 'Int8') AS bucket, why, slice_ms, work,
       energy_mj, unattributed_mj, head, tail
FROM holds FINAL
WHERE toStartOfHour(slot) >= {from:DateTime('UTC')} AND toStartOfHour(slot) < {to:DateTime('UTC')}
  AND cityHash64(node) % {parts:UInt64} = {part:UInt64} AND ({batch:UInt64} = 0 OR batch = {batch:UInt64})`

// sealed counts what was held against its seal.
type sealed struct{ batches, without int64 }

// stretch is some hours of the journal, and how many parts their nodes are taken in.
type stretch struct {
	from, to time.Time
	batches  uint64
}

// checkSeals makes every batch's seal again, of its journal row and of the rows
// that are stored. Weeks whose raw was dropped are left out.
func (d CheckDeps) checkSeals(ctx context.Context, res *check.Result, weeks ledger.RawWeeks) error {
	var hours []struct {
		Hour    time.Time `ch:"hour"`
		Batches uint64    `ch:"batches"`
	}
	if err := d.Store.Select(ctx, &hours, selectSealHours, store.Named("dropped", weeks.Dropped())); err != nil {
		return fmt.Errorf("read the journal's hours: %w", err)
	}
	var list []stretch
	for _, h := range hours {
		last := len(list) - 1
		if last >= 0 && list[last].to.Equal(h.Hour) && list[last].batches+h.Batches <= sealBatches {
			list[last].to, list[last].batches = h.Hour.Add(time.Hour), list[last].batches+h.Batches
			continue
		}
		list = append(list, stretch{h.Hour, h.Hour.Add(time.Hour), h.Batches})
	}
	var sum sealed
	for _, s := range list {
		parts := s.batches/sealBatches + 1
		for part := range parts {
			if err := d.checkStretch(ctx, res, &sum, store.Named("from", s.from), store.Named("to", s.to),
				store.Named("part", part), store.Named("parts", parts)); err != nil {
				return err
			}
		}
	}
	res.Say(fmt.Sprintf("%d batches equal their seals", sum.batches))
	if sum.without > 0 {
		res.Say(fmt.Sprintf("%d from before there were any: replay them", sum.without))
	}
	return nil
}

func (d CheckDeps) checkStretch(ctx context.Context, res *check.Result, sum *sealed, args ...any) error {
	journal := newJournalColumns()
	var origins proto.ColInt8
	type row struct {
		facts facts
		id    uint64
		seal  seal
	}
	var rows []row
	if err := d.Store.Stream(ctx, journal.sealedResults(&origins), func(n int) error {
		for i := range n {
			rows = append(rows, row{journal.facts(i, origins[i]), journal.batch[i], seal(journal.seal.Row(i))})
		}
		return nil
	}, selectSealed, args...); err != nil {
		return fmt.Errorf("read sealed batches: %w", err)
	}
	raw, err := d.readRaw(ctx, append(args, store.Named("batch", uint64(0)))...)
	if err != nil {
		return err
	}
	for i := range rows {
		r := &rows[i]
		stored := raw.of(r.id)
		switch {
		case r.id != wire.ID(r.facts.hash):
			res.Fail("batch %016x of node %s, slot %s: its id is not that of its hash %x", r.id, r.facts.node, slotTime(r.facts.slot*1000), r.facts.hash)
		case r.seal == seal{}:
			sum.without++
		case stored.mixed || r.seal != sealOf(&r.facts, stored.gpus, stored.rules):
			res.Fail("batch %016x of node %s, slot %s: its journal row or its rows were changed after they were written", r.id, r.facts.node, slotTime(r.facts.slot*1000))
		default:
			sum.batches++
		}
	}
	return nil
}

// sealedResults are the columns of selectSealed.
func (c *journalColumns) sealedResults(origins *proto.ColInt8) proto.Results {
	return proto.Results{
		{Name: "cluster", Data: c.cluster},
		{Name: "node", Data: c.node},
		{Name: "slot", Data: &c.slot},
		{Name: "slot_ms", Data: &c.slotMS},
		{Name: "collector", Data: c.collector},
		{Name: "boot_ms", Data: &c.bootMS},
		{Name: "seq", Data: &c.seq},
		{Name: "rev", Data: &c.rev},
		{Name: "batch", Data: &c.batch},
		{Name: "hash", Data: &c.hash},
		{Name: "seal", Data: &c.seal},
		{Name: "attribution_ok", Data: &c.attributionOK},
		{Name: "enumeration_complete", Data: &c.complete},
		{Name: "observed_ms", Data: &c.observedMS},
		{Name: "observed", Data: c.observed},
		{Name: "gpus", Data: c.gpus},
		{Name: "energy_mj", Data: &c.energy},
		{Name: "origin", Data: origins},
	}
}

func (c *journalColumns) facts(i int, origin int8) facts {
	return facts{
		cluster: c.cluster.Row(i), node: c.node.Row(i), collector: c.collector.Row(i), slot: c.slot.Row(i).Unix(),
		slotMS: c.slotMS[i], observedMS: c.observedMS[i], bootMS: c.bootMS[i], seq: c.seq[i], rev: c.rev[i], hash: [32]byte(c.hash.Row(i)),
		attributionOK: c.attributionOK[i], complete: c.complete[i], origin: uint8(origin),
		observed: c.observed.Row(i), gpus: c.gpus.Row(i), energyMJ: c.energy[i],
	}
}

// rawBatch is what is stored of a batch; mixed: of several rules.
type rawBatch struct {
	gpus  []meter.GPUSlot
	rules uint16
	mixed bool
}

// sealedRaw gathers rows by batch.
type sealedRaw struct {
	batches map[uint64]*rawBatch
	rows    *holdsColumns
	bucket  proto.ColInt8
}

func (d CheckDeps) readRaw(ctx context.Context, args ...any) (*sealedRaw, error) {
	raw := &sealedRaw{batches: map[uint64]*rawBatch{}, rows: newHoldsColumns()}
	if err := d.Store.Stream(ctx, raw.results(), raw.add, selectSealedHolds, args...); err != nil {
		return nil, fmt.Errorf("read sealed rows: %w", err)
	}
	return raw, nil
}

func (s *sealedRaw) of(batch uint64) *rawBatch {
	b := s.batches[batch]
	if b == nil {
		b = &rawBatch{}
		s.batches[batch] = b
	}
	return b
}

// results are the columns of selectSealedHolds.
func (s *sealedRaw) results() proto.Results {
	c := s.rows
	return proto.Results{
		{Name: "batch", Data: &c.batch},
		{Name: "gpu", Data: c.gpu},
		{Name: "model", Data: c.model},
		{Name: "slices", Data: &c.slices},
		{Name: "kind", Data: &c.kind},
		{Name: "rules", Data: &c.rules},
		{Name: "leaf", Data: &c.leaf},
		{Name: "owner", Data: &c.owner},
		{Name: "bucket", Data: &s.bucket},
		{Name: "why", Data: &c.why},
		{Name: "slice_ms", Data: &c.sliceMS},
		{Name: "work", Data: &c.work},
		{Name: "energy_mj", Data: &c.energy},
		{Name: "unattributed_mj", Data: &c.unattributed},
		{Name: "head", Data: &c.head},
		{Name: "tail", Data: &c.tail},
	}
}

func (s *sealedRaw) add(n int) error {
	c := s.rows
	for i := range n {
		b := s.of(c.batch[i])
		gpu, model := c.gpu.Row(i), c.model.Row(i)
		at := slices.IndexFunc(b.gpus, func(g meter.GPUSlot) bool {
			return g.UUID == gpu && g.Model == model && g.Slices == int(c.slices[i]) && g.Kind == meter.Kind(c.kind[i])
		})
		if at < 0 {
			at = len(b.gpus)
			b.gpus = append(b.gpus, meter.GPUSlot{UUID: gpu, Model: model, Slices: int(c.slices[i]), Kind: meter.Kind(c.kind[i])})
		}
		b.mixed = b.mixed || b.rules != 0 && b.rules != c.rules[i]
		b.rules = c.rules[i]
		b.gpus[at].Rows = append(b.gpus[at].Rows, meter.Row{
			Leaf: c.leaf[i], Owner: c.owner[i], Bucket: meter.Bucket(s.bucket[i]), Why: meter.Why(c.why[i]),
			SliceMS: int64(c.sliceMS[i]), Work: int64(c.work[i]), EnergyMJ: c.energy[i], UnattributedMJ: c.unattributed[i],
			Head: meter.Share(c.head[i]), Tail: meter.Share(c.tail[i]),
		})
	}
	return nil
}
