package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/wire"
)

// journalBatch is a stored batch without its raw rows.
type journalBatch struct {
	node        string
	slotMS      int64 // start of the slot, Unix ms
	rank        wire.Rank
	batch       uint64
	attribution bool
	complete    bool
	observedMS  uint32
	observed    []uint32 // [from, to) pairs in ms of the slot
	holdRows    uint32
}

func (j *journalBatch) nodeSlot() meter.NodeSlot {
	s := meter.NodeSlot{
		StartMS: j.slotMS, Nothing: j.observedMS == 0, Complete: j.complete, AttributionOK: j.attribution,
		Fill: j.rank.Rev == wire.FillRev,
	}
	for _, ms := range j.observed {
		s.Observed = append(s.Observed, int64(ms))
	}
	return s
}

// winners are the batches that count: one per (node, slot) (R1, C5).
type winners struct {
	nodes    map[string][]meter.NodeSlot // ascending by slot
	expected map[uint64]rowCount         // by winning batch
	findings []string
	replaced map[replacement]bool
	// best is the best batch so far of the current (node, slot).
	best *journalBatch
}

// replacement counts batches of one collector that replace another's.
type replacement struct {
	node, winner, loser string
	hourMS              int64
}

// rowCount is the number of a batch's raw rows: rows according to the journal, found by
// reading.
type rowCount struct{ rows, found uint32 }

func newWinners() *winners {
	return &winners{
		nodes: map[string][]meter.NodeSlot{}, expected: map[uint64]rowCount{},
		replaced: map[replacement]bool{},
	}
}

// add takes journal rows in order of node and slot, so that only the winners are kept.
// Copies of a batch at several offsets are one batch.
func (w *winners) add(row journalBatch) {
	old := w.best
	if old == nil || old.node != row.node || old.slotMS != row.slotMS {
		w.pick()
		w.best = &row
		return
	}
	if old.rank.Rev == row.rank.Rev && old.batch != row.batch &&
		row.rank.Rev != wire.FillRev { // of fills the later run's batch is a correction (R18)
		w.findings = append(w.findings,
			fmt.Sprintf("two different batches of rank %d for node %s, slot %s: one of them is ignored", row.rank.Rev, row.node,
				time.UnixMilli(row.slotMS).UTC()))
	}
	winner, loser := old, &row
	if row.rank.Compare(old.rank) > 0 {
		winner, loser = &row, old
	}
	w.best = winner
	r := replacement{row.node, winner.rank.Collector, loser.rank.Collector, row.slotMS - row.slotMS%meter.HourMS}
	if r.winner != r.loser && loser.rank.Rev != wire.FillRev && !w.replaced[r] {
		w.replaced[r] = true
		w.findings = append(w.findings,
			fmt.Sprintf("node %q, hour %s: batches of collector %q replace those of collector %q",
				r.node, time.UnixMilli(r.hourMS).UTC().Format(time.RFC3339), r.winner, r.loser))
	}
}

// pick adds the winner of the (node, slot) that add has finished.
func (w *winners) pick() {
	if w.best == nil {
		return
	}
	w.nodes[w.best.node] = append(w.nodes[w.best.node], w.best.nodeSlot())
	w.expected[w.best.batch] = rowCount{rows: w.best.holdRows}
	w.best = nil
}

// met counts a raw row, and reports whether its batch is a winner.
func (w *winners) met(batch uint64) bool {
	p, wins := w.expected[batch]
	if wins {
		p.found++
		w.expected[batch] = p
	}
	return wins
}

// missing describes the batches whose number of raw rows differs from the journal,
// once all parts are read.
func (w *winners) missing() (missing []string) {
	for id, p := range w.expected {
		if p.found != p.rows {
			missing = append(missing, fmt.Sprintf("batch %016x has %d of %d rows", id, p.found, p.rows))
		}
	}
	return missing
}

// journalColumns are the columns of selectJournal, in its order.
var journalColumns = []string{
	"node", "slot", "collector", "boot_ms", "seq", "rev", "batch", "hash", "attribution_ok", "enumeration_complete",
	"observed_ms", "observed",
	"hold_rows",
}

func journalBatchOf(r *tables.Batch) journalBatch {
	return journalBatch{
		node: r.Node, slotMS: r.Slot.UnixMilli(),
		rank:  wire.Rank{Rev: r.Rev, Collector: r.Collector, BootMS: int64(r.BootMS), Seq: r.Seq, Hash: r.Hash},
		batch: r.Batch, attribution: r.AttributionOK == 1, complete: r.Complete == 1, observedMS: r.ObservedMS,
		observed: r.Observed, holdRows: r.HoldRows,
	}
}

func (l *Ledger) readWinners(ctx context.Context, c cluster, p part, from, to time.Time) (*winners, error) {
	w, block := newWinners(), tables.NewBlock[tables.Batch](journalColumns...)
	err := l.deps.Store.Stream(ctx, block.Results(), func(rows int) error {
		var row tables.Batch
		for i := range rows {
			block.Row(i, &row)
			w.add(journalBatchOf(&row))
		}
		return nil
	}, selectJournal, p.args(c.Name, from, to)...)
	if err != nil {
		return nil, fmt.Errorf("read journal of %s from %s: %w", c.Name, from, err)
	}
	w.pick()
	return w, nil
}
