package explain

import (
	"slices"
	"sort"

	"github.com/gputally/gputally/internal/meter"
)

// kind is what a slot knows of the GPU.
type kind int

const (
	absent   kind = iota // outside of the inventory
	silent               // no batch of its node
	filled               // none but allocation records (R18)
	blind                // the batch saw nothing of the slot
	unlisted             // a partial enumeration without the GPU
	missing              // a complete one without it: lost (R2)
	lost                 // listed, fallen off the bus
	excess               // more slices than the hour's capacity, or another kind of entry
	unread               // owners could not be read (R4)
	cut                  // parts of the slot were seen
	plain
)

// against says that something is known which no gap reaches over (R10).
func (k kind) against() bool { return k == missing || k == lost || k == excess }

// side says that holders are known.
func (k kind) side() bool { return k == plain || k == cut }

// cell is one slot of the GPU: the node that has it and what its winning batch says.
type cell struct {
	startMS int64
	node    string
	slot    *meter.NodeSlot
	record  *meter.Record
	batch   *batchRow
	listers []string
	kind    kind
}

// bounds are the first and the last instant seen, Unix ms.
func (c *cell) bounds(slotMS int64) (from, to int64) {
	if c.slot == nil || len(c.slot.Observed) == 0 {
		return c.startMS, c.startMS + slotMS
	}
	return c.startMS + c.slot.Observed[0], c.startMS + c.slot.Observed[len(c.slot.Observed)-1]
}

// observedMS is how much of the slot was seen.
func (c *cell) observedMS(slotMS int64) int64 {
	switch {
	case c.slot == nil || c.slot.Nothing:
		return 0
	case c.batch != nil:
		return int64(c.batch.ObservedMS)
	}
	return slotMS
}

// cells are all slots from first to end, Unix ms, those around the hour too.
func (p *replay) cells() ([]cell, error) {
	r := p.raw
	node := p.nodeBefore()
	from := r.row.startMS() - meter.GapMaxMS
	from -= ((from % r.slotMS) + r.slotMS) % r.slotMS
	var out []cell
	for at := from; at < r.row.startMS()+meter.HourMS+meter.GapMaxMS; at += r.slotMS {
		c := cell{startMS: at, listers: r.listers(at)}
		inHour := at >= r.row.startMS() && at < r.row.endMS()
		switch {
		case len(c.listers) == 1:
			node = c.listers[0]
		case len(c.listers) > 1 && inHour: // R14 decides by runs: the rules are asked
			got, err := p.at(at+r.slotMS, at)
			if err != nil {
				return nil, err
			}
			node = got.Node
		case len(c.listers) > 1:
			node = c.listers[0]
		}
		c.node = node
		c.batch = r.winners[slotKey{node, at}]
		if c.batch != nil && !c.batch.fills() {
			slot := c.batch.nodeSlot()
			c.slot = &slot
		}
		c.record = r.record(node, at)
		c.kind = p.kindOf(&c)
		out = append(out, c)
	}
	return out, nil
}

// nodeBefore is where the GPU was when the hour began; empty: not known.
func (p *replay) nodeBefore() string {
	last, closedMS := meter.Sighting{}, p.raw.cutBefore(p.raw.row.startMS())
	for _, s := range p.pinned {
		if s.LastMS <= closedMS {
			continue
		}
		if s.LastMS > last.LastMS || (s.LastMS == last.LastMS && s.LastMS > 0 &&
			(s.RunFromMS > last.RunFromMS || (s.RunFromMS == last.RunFromMS && s.Node < last.Node))) {
			last = s
		}
	}
	return last.Node
}

func (r *raw) listers(at int64) []string {
	var nodes []string
	for node := range r.records {
		if r.record(node, at) != nil {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

func (r *raw) record(node string, at int64) *meter.Record {
	records := r.records[node]
	i := sort.Search(len(records), func(i int) bool { return records[i].StartMS >= at })
	if i < len(records) && records[i].StartMS == at {
		return &records[i]
	}
	return nil
}

func (p *replay) kindOf(c *cell) kind {
	switch {
	case c.slot == nil && c.batch != nil:
		return filled
	case c.slot == nil:
		return silent
	case c.slot.Nothing:
		return blind
	case c.record == nil && c.slot.Complete:
		return missing
	case c.record == nil:
		return unlisted
	case has(c.record, meter.WhyLost):
		return lost
	case has(c.record, meter.WhyExcess) || c.record.Slices > p.slices || (c.record.Slices > 0 && c.record.Kind != p.kind):
		return excess
	case !c.slot.AttributionOK:
		return unread
	case len(c.slot.Observed) > 0:
		return cut
	}
	return plain
}

func has(r *meter.Record, why meter.Why) bool {
	return slices.ContainsFunc(r.Rows, func(row meter.Row) bool { return row.Why == why })
}

// segment is a run of slots of one kind, and what it adds to the hour.
type segment struct {
	kind         kind
	fromMS, toMS int64
	node         string
	cells        []cell
	added        meter.GPUHour
	after        meter.GPUHour // the hour up to the segment's end
}

// segments cut the counted part of the hour. Slots that are seen in part, or
// that several nodes list, stand for themselves.
func (p *replay) segments(cells []cell) ([]segment, error) {
	var out []segment
	lastMS, lastKind := p.raw.lastSighting() // end of the last slot that lists the GPU
	for _, c := range cells {
		if c.startMS < p.raw.row.startMS() || c.startMS >= p.raw.row.endMS() {
			continue
		}
		if lastMS <= p.raw.cutBefore(c.startMS) {
			lastMS = 0
		}
		if len(c.listers) > 0 {
			lastMS = c.startMS + p.raw.slotMS
			if c.record != nil {
				lastKind = c.record.Kind
			}
		}
		if lastMS == 0 || c.startMS >= lastMS+lastKind.RetireAfterMS() {
			c.kind = absent
		}
		n := len(out) - 1
		if n < 0 || out[n].kind != c.kind || out[n].node != c.node || c.kind == cut || len(c.listers) > 1 {
			out = append(out, segment{kind: c.kind, fromMS: c.startMS, node: c.node})
			n++
		}
		out[n].cells = append(out[n].cells, c)
		out[n].toMS = c.startMS + p.raw.slotMS
	}
	before := meter.GPUHour{}
	for i := range out {
		s := &out[i]
		after, err := p.at(s.toMS, forever)
		if err != nil {
			return nil, err
		}
		s.added, s.after = subtract(after, before), after
		before = after
	}
	return out, nil
}

// lastSighting is the end of the last slot before the hour that lists the GPU,
// and as what.
func (r *raw) lastSighting() (lastMS int64, kind meter.Kind) {
	for _, s := range r.sightings {
		if s.LastMS > lastMS {
			lastMS, kind = s.LastMS, s.KindLast
		}
	}
	return lastMS, kind
}

// cutBefore is the last retirement at or before an instant, Unix ms; 0: none.
func (r *raw) cutBefore(atMS int64) (cutMS int64) {
	for _, t := range r.retirements {
		if t.cutMS <= atMS {
			cutMS = t.cutMS
		}
	}
	return cutMS
}
