package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/wire"
)

// journalBatch is a stored batch, without its rows.
type journalBatch struct {
	node        string
	slotMS      int64 // start of the slot, Unix ms
	rank        wire.Rank
	batch       uint64
	attribution bool
	complete    bool
	observedMS  uint32
	observed    []uint32 // from, to, from, to, … in ms of the slot
	holdRows    uint32
}

func (j *journalBatch) nodeSlot() meter.NodeSlot {
	s := meter.NodeSlot{StartMS: j.slotMS, Nothing: j.observedMS == 0, Complete: j.complete, AttributionOK: j.attribution,
		Fill: j.rank.Rev == wire.FillRev}
	for _, ms := range j.observed {
		s.Observed = append(s.Observed, int64(ms))
	}
	return s
}

// winners are the batches that count: one per (node, slot) (R1, C5).
type winners struct {
	nodes    map[string][]meter.NodeSlot // ascending by slot
	promised map[uint64]promise          // per winning batch
	findings []string
	replaced map[replacement]bool
	// best is the best so far of the (node, slot) under way.
	best *journalBatch
}

// replacement is batches of one collector that count in place of another's.
type replacement struct {
	node, winner, loser string
	hourMS              int64
}

// promise is how many rows the journal says a batch has, and how many were met.
type promise struct{ rows, found uint32 }

func newWinners() *winners {
	return &winners{nodes: map[string][]meter.NodeSlot{}, promised: map[uint64]promise{}, replaced: map[replacement]bool{}}
}

// add takes the journal ordered by node and slot, so that it needs to keep no
// more than the winners. Copies of one batch at several offsets are one batch.
func (w *winners) add(row journalBatch) {
	old := w.best
	if old == nil || old.node != row.node || old.slotMS != row.slotMS {
		w.settle()
		w.best = &row
		return
	}
	if old.rank.Rev == row.rank.Rev && old.batch != row.batch &&
		row.rank.Rev != wire.FillRev { // of fills the later run's corrects (R18)
		w.findings = append(w.findings,
			fmt.Sprintf("two batches of rank %d for node %s, slot %s", row.rank.Rev, row.node, time.UnixMilli(row.slotMS).UTC()))
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
			fmt.Sprintf("node %q, hour %s: batches of collector %q count in place of collector %q's",
				r.node, time.UnixMilli(r.hourMS).UTC().Format(time.RFC3339), r.winner, r.loser))
	}
}

// settle books the winner of the (node, slot) that add has left.
func (w *winners) settle() {
	if w.best == nil {
		return
	}
	w.nodes[w.best.node] = append(w.nodes[w.best.node], w.best.nodeSlot())
	w.promised[w.best.batch] = promise{rows: w.best.holdRows}
	w.best = nil
}

// met counts a row of raw, and says whether its batch is a winner.
func (w *winners) met(batch uint64) bool {
	p, wins := w.promised[batch]
	if wins {
		p.found++
		w.promised[batch] = p
	}
	return wins
}

// missing lists the batches that don't have exactly the rows that the journal
// promised, once all parts are read.
func (w *winners) missing() (missing []string) {
	for id, p := range w.promised {
		if p.found != p.rows {
			missing = append(missing, fmt.Sprintf("batch %016x has %d of %d rows", id, p.found, p.rows))
		}
	}
	return missing
}

// journalColumns are those of selectJournal, in its order.
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
	w.settle()
	return w, nil
}
