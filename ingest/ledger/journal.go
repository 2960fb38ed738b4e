package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuledger/gpuledger/internal/meter"
	"github.com/gpuledger/gpuledger/internal/store"
	"github.com/gpuledger/gpuledger/internal/wire"
)

type cluster struct {
	Name   string `ch:"cluster"`
	SlotMS uint32 `ch:"slot_ms"`
}

// journalHour is what the journal holds of one hour.
type journalHour struct {
	Hour   time.Time `ch:"hour"`
	Stored uint64    `ch:"stored"`
	Head   uint64    `ch:"head"` // of them, within the gap's reach of the hour before
	EndMS  int64     `ch:"end_ms"`
}

// ledgerHour is what the ledger holds of one hour.
type ledgerHour struct {
	Hour    time.Time `ch:"hour"`
	Inputs  uint64    `ch:"inputs"`
	UntilMS uint32    `ch:"until_ms"`
	Epoch   uint32    `ch:"epoch"`
}

// journalBatch is a stored batch, without its rows.
type journalBatch struct {
	Node          string    `ch:"node"`
	Slot          time.Time `ch:"slot"`
	SlotMS        uint32    `ch:"slot_ms"`
	Rev           uint64    `ch:"rev"`
	Collector     string    `ch:"collector"`
	BootMS        uint64    `ch:"boot_ms"`
	Seq           uint64    `ch:"seq"`
	Hash          string    `ch:"hash"`
	Batch         uint64    `ch:"batch"`
	AttributionOK uint8     `ch:"attribution_ok"`
	Complete      uint8     `ch:"enumeration_complete"`
	ObservedMS    uint32    `ch:"observed_ms"`
	Observed      []uint32  `ch:"observed"`
	HoldRows      uint32    `ch:"hold_rows"`
}

func (j *journalBatch) rank() wire.Rank {
	r := wire.Rank{Rev: j.Rev, Collector: j.Collector, BootMS: int64(j.BootMS), Seq: j.Seq}
	copy(r.Hash[:], j.Hash)
	return r
}

func (j *journalBatch) nodeSlot() meter.NodeSlot {
	s := meter.NodeSlot{
		StartMS: j.Slot.UnixMilli(), Nothing: j.ObservedMS == 0,
		Complete: j.Complete == 1, AttributionOK: j.AttributionOK == 1,
	}
	for _, ms := range j.Observed {
		s.Observed = append(s.Observed, int64(ms))
	}
	return s
}

// winners are the batches that count: one per (node, slot) (R1, C5).
type winners struct {
	nodes    map[string][]meter.NodeSlot // ascending by slot
	promised map[uint64]uint32           // rows per winning batch
	findings []string
}

type nodeSlotKey struct {
	node string
	slot int64
}

func (l *Ledger) readWinners(ctx context.Context, c cluster, from, to time.Time) (*winners, error) {
	var rows []journalBatch
	if err := l.deps.Store.Select(ctx, &rows, selectJournal,
		store.Named("cluster", c.Name), store.Named("from", from), store.Named("to", to)); err != nil {
		return nil, fmt.Errorf("read journal of %s from %s: %w", c.Name, from, err)
	}
	return pickWinners(rows), nil
}

// pickWinners takes rows ascending by slot. Copies of one batch at several
// offsets are one batch.
func pickWinners(rows []journalBatch) *winners {
	best := make(map[nodeSlotKey]*journalBatch, len(rows))
	w := &winners{nodes: map[string][]meter.NodeSlot{}, promised: make(map[uint64]uint32, len(rows))}
	for i := range rows {
		row := &rows[i]
		key := nodeSlotKey{row.Node, row.Slot.UnixMilli()}
		old := best[key]
		if old == nil || row.rank().Compare(old.rank()) > 0 {
			best[key] = row
		}
		if old != nil && old.Rev == row.Rev && old.Batch != row.Batch {
			w.findings = append(w.findings, fmt.Sprintf("two batches of rank %d for node %s, slot %s", row.Rev, row.Node, row.Slot.UTC()))
		}
	}
	for i := range rows {
		row := &rows[i]
		if best[nodeSlotKey{row.Node, row.Slot.UnixMilli()}] == row {
			w.nodes[row.Node] = append(w.nodes[row.Node], row.nodeSlot())
			w.promised[row.Batch] = row.HoldRows
		}
	}
	return w
}

// overview says what each hour of the cluster rests on, and which are dirty.
type overview struct {
	watermarkMS int64
	hours       []hourState
	orphans     []time.Time // hours of the ledger that the journal doesn't reach, ascending
}

type hourState struct {
	start   time.Time
	inputs  uint64
	untilMS uint32
	epoch   uint32 // the one that the hour must be computed under
	dirty   bool
	// published says that the ledger holds rows of the hour.
	published bool
}

// version is what a row of the hour must carry, by the weakest of them.
func (h ledgerHour) version() uint64 {
	return hourState{epoch: h.Epoch, inputs: h.Inputs, untilMS: h.UntilMS}.version()
}

// version only grows: a stale worker's row loses (R5).
func (h hourState) version() uint64 {
	return uint64(h.epoch)<<44 | h.inputs<<12 | uint64(h.untilMS/1000)
}

// backMS is how far back the journal reaches that an hour rests on: the hour in
// which a GPU retires still counts the one it was last seen in.
const backMS = meter.RetireAfterMS + meter.HourMS

// everything is before any hour. ClickHouse refuses to read a parameter of
// fewer than five digits as a DateTime, so it isn't the Unix epoch itself.
var everything = time.Date(1971, 1, 1, 0, 0, 0, 0, time.UTC)

// overview looks at the hours from since on.
func (l *Ledger) overview(ctx context.Context, c cluster, epochs []epoch, since time.Time) (*overview, error) {
	from := since
	if since.After(everything) {
		from = since.Add(-backMS * time.Millisecond)
	}
	var journal []journalHour
	if err := l.deps.Store.Select(ctx, &journal, selectJournalHours, store.Named("cluster", c.Name),
		store.Named("gap", uint32(meter.GapMaxMS/1000)), store.Named("from", from)); err != nil {
		return nil, fmt.Errorf("read journal hours of %s: %w", c.Name, err)
	}
	var ledger []ledgerHour
	if err := l.deps.Store.Select(ctx, &ledger, selectLedgerHours, store.Named("cluster", c.Name), store.Named("from", since)); err != nil {
		return nil, fmt.Errorf("read ledger hours of %s: %w", c.Name, err)
	}
	return compareHours(journal, ledger, epochs, since), nil
}

// compareHours derives dirtiness: an hour rests on the journal from a day
// before it (the inventory) to the gap's reach after it.
func compareHours(journal []journalHour, ledger []ledgerHour, epochs []epoch, since time.Time) *overview {
	o := &overview{}
	if len(journal) == 0 {
		o.orphans = outside(ledger, 0, 0)
		return o
	}
	byHour := make(map[int64]journalHour, len(journal))
	for _, j := range journal {
		byHour[j.Hour.UnixMilli()] = j
		o.watermarkMS = max(o.watermarkMS, j.EndMS)
	}
	have := make(map[int64]ledgerHour, len(ledger))
	for _, r := range ledger {
		have[r.Hour.UnixMilli()] = r
	}
	first := journal[0].Hour.UnixMilli()
	var window uint64 // stored batches of the hours from backMS before it to its own
	for start := first; start < o.watermarkMS; start += meter.HourMS {
		window += byHour[start].Stored - byHour[start-backMS].Stored
		if start < since.UnixMilli() {
			continue
		}
		state := hourState{
			start: time.UnixMilli(start).UTC(), inputs: window + byHour[start+meter.HourMS].Head,
			untilMS: uint32(min(o.watermarkMS-start, meter.HourMS)), epoch: epochAt(epochs, time.UnixMilli(start)),
		}
		old, ok := have[start]
		state.published = ok
		// Without a row and without inputs there is no GPU that could have one.
		state.dirty = (ok || state.inputs > 0) && old.version() < state.version()
		o.hours = append(o.hours, state)
	}
	o.orphans = outside(ledger, first, o.watermarkMS)
	return o
}

// closedUntil is the end of the hours from the first one on that are closed:
// old enough on the service's clock, and covering the whole journal (R3).
func (o *overview) closedUntil(now time.Time, closeAfter time.Duration) time.Time {
	var end time.Time
	for _, h := range o.hours {
		next := h.start.Add(time.Hour)
		if h.dirty || h.untilMS < meter.HourMS || now.Before(next.Add(closeAfter)) {
			break
		}
		end = next
	}
	return end
}

// outside are the hours that don't start in [fromMS, toMS).
func outside(ledger []ledgerHour, fromMS, toMS int64) (hours []time.Time) {
	for _, r := range ledger {
		if ms := r.Hour.UnixMilli(); ms < fromMS || ms >= toMS {
			hours = append(hours, r.Hour.UTC())
		}
	}
	return hours
}
