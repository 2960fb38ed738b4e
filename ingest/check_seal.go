package ingest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/plural"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/wire"
)

// sealBatches is the number of journal rows that are compared with their raw rows at
// once: a few dozen megabytes.
const sealBatches = 20_000

// journalNames are the columns of the journal.
var journalNames = tables.Columns[tables.Batch]()

const selectSealHours = `
SELECT toStartOfHour(slot) AS hour, count() AS batches FROM batches FINAL
WHERE status = 'stored' AND toString(toMonday(slot)) NOT IN {dropped:Array(String)}
GROUP BY hour ORDER BY hour`

var selectSealed = `
SELECT ` + journalNames + `
FROM batches FINAL
WHERE status = 'stored' AND toStartOfHour(slot) >= {from:DateTime('UTC')} AND toStartOfHour(slot) < {to:DateTime('UTC')}
  AND cityHash64(node) % {parts:UInt64} = {part:UInt64}`

// Journal rows without raw rows: dead messages, holes, late batches.
var selectUnstored = `SELECT ` + journalNames + ` FROM batches FINAL WHERE status != 'stored'`

// Late batches without a row in late_unprocessed.
const selectLost = `
SELECT count() AS lost, any(concat('partition ', toString(partition), ', offset ', toString(offset))) AS example FROM batches FINAL
WHERE status = 'late' AND (topic, partition, offset, hash) GLOBAL NOT IN (SELECT topic, partition, offset, hash FROM late_unprocessed FINAL)`

const selectSealedHolds = `
SELECT gpu, batch, model, slices, kind, leaf, owner, bucket, why, slice_ms, work, energy_mj, unattributed_mj,
  energy_why, head, tail, rules
FROM holds FINAL
WHERE toStartOfHour(slot) >= {from:DateTime('UTC')} AND toStartOfHour(slot) < {to:DateTime('UTC')}
  AND cityHash64(node) % {parts:UInt64} = {part:UInt64} AND ({batch:UInt64} = 0 OR batch = {batch:UInt64})`

// sealed counts the journal rows compared with their seals; without: rows that have no
// seal.
type sealed struct{ rows, without int64 }

// stretch is a range of the journal's hours, with the number of parts that their nodes
// are read in.
type stretch struct {
	from, to time.Time
	batches  uint64
}

// checkSeals computes the seal of every journal row again, from the row and the
// batch's raw rows. Batches of weeks whose raw was dropped are left out.
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
	if err := d.checkUnstored(ctx, res, &sum, weeks); err != nil {
		return err
	}
	for _, s := range list {
		parts := s.batches/sealBatches + 1
		for part := range parts {
			if err := d.checkStretch(ctx, res, &sum, store.Named("from", s.from), store.Named("to", s.to),
				store.Named("part", part), store.Named("parts", parts)); err != nil {
				return err
			}
		}
	}
	res.Say(fmt.Sprintf("%d journal rows match their seals", sum.rows))
	if sum.without > 0 {
		res.Say(fmt.Sprintf("%d have no seal, being from an older version: gputally replay adds it", sum.without))
	}
	return nil
}

func (d CheckDeps) checkStretch(ctx context.Context, res *check.Result, sum *sealed, args ...any) error {
	journal := tables.NewBlock[tables.Batch]()
	type sealedRow struct {
		text []byte
		seal seal
		id   uint64
		hash [32]byte
		name string
	}
	var rows []sealedRow
	if err := d.Store.Stream(ctx, journal.Results(), func(n int) error {
		var row tables.Batch
		for i := range n {
			journal.Row(i, &row)
			rows = append(rows, sealedRow{sealText(&row), row.Seal, row.Batch, row.Hash, rowName(&row)})
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
		case r.id != wire.ID(r.hash):
			res.Fail("%s: its batch id is not derived from its hash %x", r.name, r.hash)
		case r.seal == seal{}:
			sum.without++
		case stored.mixed || r.seal != sealOf(r.text, rawOf(stored.gpus, stored.rules)):
			res.Fail("%s: its journal row or its raw rows were changed after they were written", r.name)
		default:
			sum.rows++
		}
	}
	return nil
}

// checkUnstored compares the journal rows without raw rows with their seals, and
// proves that each late batch is late and is kept in late_unprocessed (R3).
func (d CheckDeps) checkUnstored(ctx context.Context, res *check.Result, sum *sealed, weeks ledger.RawWeeks) error {
	var changed, early int
	var example, earlyExample string
	journal := tables.NewBlock[tables.Batch]()
	if err := d.Store.Stream(ctx, journal.Results(), func(n int) error {
		var row tables.Batch
		for i := range n {
			journal.Row(i, &row)
			if row.Status == tables.StatusLate && !weeks.Late(row.Slot) {
				early, earlyExample = early+1, rowName(&row)
			}
			switch {
			case row.Seal == seal{}:
				sum.without++
			case row.Seal != sealOf(sealText(&row), seal{}):
				changed, example = changed+1, rowName(&row)
			default:
				sum.rows++
			}
		}
		return nil
	}, selectUnstored); err != nil {
		return fmt.Errorf("read journal rows without raw rows: %w", err)
	}
	if changed > 0 {
		res.Fail("%s without raw rows changed after they were written, such as %s", plural.Of(changed, "journal row"),
			example)
	}
	if early > 0 {
		res.Fail("%s marked late in the journal although the raw of their hours was not dropped, such as %s",
			plural.Of(early, "batch"), earlyExample)
	}
	var lost []struct {
		Batches uint64 `ch:"lost"`
		Example string `ch:"example"`
	}
	if err := d.Store.Select(ctx, &lost, selectLost); err != nil {
		return fmt.Errorf("read late batches: %w", err)
	}
	if lost[0].Batches > 0 {
		res.Fail("%s marked late in the journal but missing from late_unprocessed, such as %s",
			plural.Of(lost[0].Batches, "batch"), lost[0].Example)
	}
	return nil
}

// rowName identifies a journal row in messages.
func rowName(row *tables.Batch) string {
	at := fmt.Sprintf("partition %d, offset %d", row.Partition, row.Offset)
	if row.Status == tables.StatusDead || row.Status == tables.StatusHole {
		return at
	}
	return fmt.Sprintf("%s, batch %016x of node %s, slot %s", at, row.Batch, row.Node, row.Slot.Format(time.DateTime))
}

// rawBatch is the raw rows of one batch; mixed: its rows were made by different
// versions of the rules.
type rawBatch struct {
	gpus  []meter.GPUSlot
	rules uint16
	mixed bool
}

// sealedRaw groups raw rows by batch.
type sealedRaw struct{ batches map[uint64]*rawBatch }

func (d CheckDeps) readRaw(ctx context.Context, args ...any) (*sealedRaw, error) {
	raw := &sealedRaw{batches: map[uint64]*rawBatch{}}
	block := tables.NewBlock[tables.Hold]("batch", "gpu", "model", "slices", "kind", "rules", "leaf", "owner", "bucket",
		"why", "slice_ms", "work",
		"energy_mj", "unattributed_mj", "energy_why", "head", "tail")
	if err := d.Store.Stream(ctx, block.Results(), func(n int) error {
		var row tables.Hold
		for i := range n {
			block.Row(i, &row)
			raw.add(&row)
		}
		return nil
	}, selectSealedHolds, args...); err != nil {
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

func (s *sealedRaw) add(row *tables.Hold) {
	b := s.of(row.Batch)
	at := slices.IndexFunc(b.gpus, func(g meter.GPUSlot) bool {
		return g.UUID == row.GPU && g.Model == row.Model && g.Slices == int(row.Slices) && g.Kind == meter.Kind(row.Kind)
	})
	if at < 0 {
		at = len(b.gpus)
		b.gpus = append(b.gpus,
			meter.GPUSlot{UUID: row.GPU, Model: row.Model, Slices: int(row.Slices), Kind: meter.Kind(row.Kind)})
	}
	b.mixed = b.mixed || b.rules != 0 && b.rules != row.Rules
	b.rules = row.Rules
	b.gpus[at].Rows = append(b.gpus[at].Rows, ledger.RowOf(row))
}
