package explain

import (
	"cmp"
	"fmt"
)

func (e *Explanation) writeBatches(p *printer) {
	p.head("batches")
	if len(e.Batches) == 0 {
		p.f("  none of a node that has the GPU")
	}
	for _, b := range e.Batches {
		p.wrapped(2, "%s node %s: %s, %s partition %d, %s, collector %s, %s (%s)", p.clocks(b.Range), b.Node, count(int64(b.Count), "winner"),
			b.Topic, b.Partition, fromTo("offset", b.FromOffset, b.ToOffset), b.Collector, fromTo("seq", b.FromSeq, b.ToSeq), b.Origin)
		p.wrapped(6, "rank: %s", b.Rank)
	}
	for _, l := range e.Losers {
		p.wrapped(2, "%s node %s: superseded, partition %d, offset %d, collector %s, boot %s, seq %d", clockOf(l.Slot), l.Node, l.Partition,
			l.Offset, l.Collector, bootText(l.BootMS), l.Seq)
		p.wrapped(6, "%s", l.Why)
	}
}

func fromTo(what string, from, to uint64) string {
	if from == to {
		return fmt.Sprintf("%s %d", what, from)
	}
	return fmt.Sprintf("%s %d-%d", what, from, to)
}

func (e *Explanation) writeEvents(p *printer) {
	if len(e.Events) == 0 {
		return
	}
	p.head("events")
	for _, ev := range e.Events {
		at := clockOf(ev.At)
		if p.zone != nil {
			local := ev.At.In(p.zone)
			at += fmt.Sprintf(" (%s %s)", clockOf(local), local.Format("MST"))
		}
		p.wrapped(2, "%s node %s%s: %s %d%s", at, ev.Node, labelled(", leaf ", ev.Leaf), ev.Kind, ev.Code, labelled(", ", ev.Detail))
	}
}

func (e *Explanation) writeEnergy(p *printer) {
	p.head("energy")
	n := e.Energy
	p.wrapped(2, "counters moved %s J = owners %s + platform %s + unattributed %s", joules(n.MovedMJ), joules(n.OwnersMJ), joules(n.PlatformMJ), joules(n.UnattributedMJ))
	for _, why := range n.Why {
		p.wrapped(2, "R16: %s", why)
	}
}

func (e *Explanation) writeProof(p *printer) {
	p.head("proof")
	p.wrapped(2, "%s", cmp.Or(e.Proof.Text, "none"))
	for _, d := range e.Proof.Differences {
		p.wrapped(4, "%s: explained %s, stored %s", d.Figure, d.Explained, d.Stored)
	}
}
