package explain

import (
	"fmt"
	"time"
)

// batches are the winning batches of the hour, in runs, and those that lost.
// Batches of nodes that don't have the GPU in their slot count, too: they are
// what the hour rests on.
func (w *words) batches() (runs []Batches, losers []Loser) {
	runs, losers = []Batches{}, []Loser{}
	open := map[string]int{}
	start, end := w.raw.row.startMS(), w.raw.row.endMS()
	for i := range w.raw.batches {
		b := &w.raw.batches[i]
		if b.slotMS() < start || b.slotMS() >= end {
			continue
		}
		if !w.raw.wins(b) {
			losers = append(losers, w.loser(b))
			continue
		}
		if n, ok := open[b.Node]; ok && runs[n].takes(b, w.slotMS) {
			continue
		}
		open[b.Node] = len(runs)
		runs = append(runs, Batches{
			Range: between(b.slotMS(), b.slotMS()+w.slotMS), Node: b.Node, Count: 1, Topic: b.Topic, Partition: b.Partition,
			FromOffset: b.Offset, ToOffset: b.Offset, Collector: b.Collector, BootMS: b.BootMS, FromSeq: b.Seq, ToSeq: b.Seq,
			Rank: rankText(b), Origin: b.Origin,
		})
	}
	return runs, losers
}

// takes joins the batch of the next slot: the next number of the same boot.
func (r *Batches) takes(b *batchRow, slotMS int64) bool {
	if r.To.UnixMilli() != b.slotMS() || r.Collector != b.Collector || r.BootMS != b.BootMS || r.Partition != b.Partition ||
		r.Topic != b.Topic || r.ToSeq+1 != b.Seq || b.Offset <= r.ToOffset || r.Rank != rankText(b) || r.Origin != b.Origin {
		return false
	}
	r.Range = between(r.From.UnixMilli(), b.slotMS()+slotMS)
	r.Count, r.ToOffset, r.ToSeq = r.Count+1, b.Offset, b.Seq
	return true
}

// rankText is what R1 compares first, in words.
func rankText(b *batchRow) string {
	if b.fills() {
		return "made of allocation records, below every other, run " + bootText(b.BootMS)
	}
	return fmt.Sprintf("attribution %s, %s ms observed, boot %s", okText(b.AttributionOK), grouped(int64(b.ObservedMS)), bootText(b.BootMS))
}

func okText(flag uint8) string {
	if flag == 1 {
		return "ok"
	}
	return "failed"
}

func bootText(ms uint64) string { return stamp(time.UnixMilli(int64(ms)).UTC()) }

func (w *words) loser(b *batchRow) Loser {
	return Loser{
		Slot: b.Slot.UTC(), Node: b.Node, Partition: b.Partition, Offset: b.Offset, Collector: b.Collector, BootMS: b.BootMS, Seq: b.Seq,
		Why: whyLost(b, w.raw.winners[slotKey{b.Node, b.slotMS()}]),
	}
}

// whyLost is the first thing in which the winner is greater (R1).
func whyLost(b, winner *batchRow) string {
	won := fmt.Sprintf("the one at partition %d, offset %d", winner.Partition, winner.Offset)
	switch {
	case b.Hash == winner.Hash:
		return "a copy of " + won + ", counted once"
	case b.fills() && !winner.fills():
		return "R18: made of allocation records for a slot of which nothing was known; " + won + " is of somebody who looked"
	case b.fills() && b.BootMS != winner.BootMS:
		return fmt.Sprintf("R18: import run of %s; %s is of a later one, %s", bootText(b.BootMS), won, bootText(winner.BootMS))
	case b.AttributionOK != winner.AttributionOK:
		return "R1: its owners could not be read; those of " + won + " could"
	case b.ObservedMS != winner.ObservedMS:
		return fmt.Sprintf("R1: %s ms of the slot observed; %s observed %s", grouped(int64(b.ObservedMS)), won, grouped(int64(winner.ObservedMS)))
	case b.BootMS != winner.BootMS && b.Rev != winner.Rev:
		return fmt.Sprintf("R1: boot of %s; %s is of a later one, %s", bootText(b.BootMS), won, bootText(winner.BootMS))
	case b.Collector != winner.Collector:
		return fmt.Sprintf("R1: equal rank, and collector %q comes before %q of %s", b.Collector, winner.Collector, won)
	case b.Seq != winner.Seq:
		return fmt.Sprintf("R1: equal rank, and seq %d is smaller than %d of %s", b.Seq, winner.Seq, won)
	}
	return "R1: equal rank, and its hash is smaller than that of " + won
}

func (r *raw) eventList() []Event {
	out := []Event{}
	for _, e := range r.events {
		out = append(out, Event{At: e.At.UTC(), Node: e.Node, Leaf: e.Leaf, Kind: e.Kind, Code: e.Code, Detail: e.Detail})
	}
	return out
}
