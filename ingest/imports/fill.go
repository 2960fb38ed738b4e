package imports

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/wire"
)

// Filled is the time held by records and not reported by a collector.
type Filled struct {
	// SliceMS is slice-ms by the number of slices that make one GPU.
	SliceMS map[uint32]int64
	// ShortMS is the part of it, in ms of GPUs by the same key, that lies in gaps
	// short enough to be inferred; inference goes first (R10).
	ShortMS int64
}

// named keeps the records that name their GPU and node, and lists the others as
// refused.
func (p *Plan) named(records []Record) []Record {
	out := make([]Record, 0, len(records))
	for _, r := range records {
		switch {
		case len(r.Devices) == 0:
			p.refused(r.Line, "%s names no GPU: in a cluster with collectors, records must name GPU and node (R18)", r.label())
		case r.Node == "":
			p.refused(r.Line, "%s names GPU %s, but no node", r.label(), r.Devices[0])
		default:
			out = append(out, r)
		}
	}
	return out
}

func (p *Plan) refused(line int, format string, args ...any) {
	p.Bad = append(p.Bad, BadLine{Line: line, Reason: fmt.Sprintf(format, args...)})
}

// lay sets the gap's leaves, those of the last batch before it.
func (g *gap) lay(rows []layoutRow, leaves map[uint64]tables.Leaf) {
	byGPU := map[string][]tables.Leaf{}
	boards := map[string]layoutRow{}
	for _, r := range rows {
		boards[r.GPU] = r
		if l, ok := leaves[r.Leaf]; ok && r.Leaf != 0 {
			byGPU[r.GPU] = append(byGPU[r.GPU], l)
		}
	}
	for uuid, r := range boards {
		board := &wire.Gpu{Uuid: uuid, Model: r.Model, Slices: r.Slices}
		parts := byGPU[uuid]
		var covered uint32
		for _, l := range parts {
			covered += l.Slices
		}
		whole := &target{gpu: board}
		g.targets[uuid] = whole
		switch {
		case meter.Kind(r.Kind) != meter.Board:
			whole.why = "is a pool and not one GPU"
		case len(parts) == 0:
			whole.why = "was lost, or had no leaf, in the last batch before"
		case covered > r.Slices:
			whole.why = "was repartitioned in the last slot before"
		case len(parts) == 1 && parts[0].GI < 0 && parts[0].Profile == "":
			whole.leaf = wireLeaf(&parts[0])
		default:
			whole.why = fmt.Sprintf("is partitioned into %d MIG instances there: name one by its MIG UUID", len(parts))
			g.instances(board, parts)
		}
	}
}

func (g *gap) instances(board *wire.Gpu, parts []tables.Leaf) {
	cut := proto.CloneOf(board)
	cut.Mig = true
	for _, l := range parts {
		if l.MIGUUID != "" {
			g.targets[l.MIGUUID] = &target{gpu: cut, leaf: wireLeaf(&l)}
		}
	}
}

func wireLeaf(l *tables.Leaf) *wire.Leaf {
	out := &wire.Leaf{Id: l.Leaf, Slices: l.Slices, Profile: l.Profile, MigUuid: l.MIGUUID}
	if l.GI >= 0 {
		out.Gi = proto.Uint32(uint32(l.GI))
	}
	if l.CI >= 0 {
		out.Ci = proto.Uint32(uint32(l.CI))
	}
	return out
}

// within returns the gaps of a node that overlap an interval.
func (l *live) within(node string, t interval) []*gap {
	gaps := l.gaps[node]
	i, _ := slices.BinarySearchFunc(gaps, t.from, func(g *gap, at int64) int { return cmp.Compare(g.to, at+1) })
	j := i
	for j < len(gaps) && gaps[j].from < t.to {
		j++
	}
	return gaps[i:j]
}

// fillable returns the leaf with that name in a gap and until when the inventory has
// it on the node; otherwise why there is none.
func (l *live) fillable(node, name string, g *gap) (t *target, untilMS int64, why string) {
	t = g.targets[name]
	switch {
	case t == nil:
		return nil, g.from, fmt.Sprintf("GPU %s is not listed in the last batch of node %s before %s", name, node,
			rfc3339(g.from))
	case t.why != "":
		return nil, g.from, fmt.Sprintf("GPU %s %s, node %s before %s", name, t.why, node, rfc3339(g.from))
	}
	untilMS = min(g.to, g.from+meter.RetireAfterMS)
	for _, s := range l.moved[t.gpu.Uuid] {
		if s.node != node && s.firstMS >= g.from {
			untilMS = min(untilMS, s.firstMS)
		}
	}
	for _, at := range l.retired[t.gpu.Uuid] {
		if at >= g.from {
			untilMS = min(untilMS, at)
		}
	}
	return t, untilMS, ""
}

// judge decides of all time of the records whether it is filled, skipped or refused.
func (p *Plan) judge() {
	p.Filled.SliceMS, p.fills = map[uint32]int64{}, map[string][]fill{}
	for _, u := range p.units {
		for i := range u.uses {
			p.judgeUse(u, &u.uses[i])
		}
	}
	for _, list := range [][]BadLine{p.Bad, p.Skipped} {
		slices.SortStableFunc(list, func(a, b BadLine) int { return cmp.Compare(a.Line, b.Line) })
	}
}

func (p *Plan) judgeUse(u *unit, x *use) {
	rec := &p.current[x.of]
	at := x.from
	for _, g := range p.live.within(u.node, x.interval) {
		p.skip(rec, u, interval{at, g.from}, "a batch reports it, or nothing was known of the node yet")
		part := interval{max(x.from, g.from), min(x.to, g.to)}
		at = part.to
		t, untilMS, why := p.live.fillable(u.node, u.uuid, g)
		if why != "" {
			p.omit(rec, part, why)
			continue
		}
		if untilMS < part.to {
			p.omit(rec, interval{max(part.from, untilMS), part.to},
				fmt.Sprintf("GPU %s is not in the inventory of node %s then", u.uuid, u.node))
			part.to = untilMS
		}
		if part.from < part.to {
			p.fills[u.node] = append(p.fills[u.node], fill{part, t, x.owner})
			p.count(t, g, part)
		}
	}
	p.skip(rec, u, interval{at, x.to}, "a batch reports it, or it is after the ledger's watermark")
}

// count adds filled time to the plan's sum, as far as it lies in the hours of the run.
func (p *Plan) count(t *target, g *gap, part interval) {
	for i, _ := slices.BinarySearch(p.hours, part.from-meter.HourMS+1); i < len(p.hours) && p.hours[i] < part.to; i++ {
		ms := min(part.to, p.hours[i]+meter.HourMS) - max(part.from, p.hours[i])
		if ms <= 0 {
			continue
		}
		p.Filled.SliceMS[t.gpu.Slices] += ms * int64(t.leaf.Slices)
		if g.to-g.from <= meter.GapMaxMS {
			p.Filled.ShortMS += ms
		}
	}
}

// skip lists time of a record that a collector reported, and that stays unchanged.
func (p *Plan) skip(rec *Record, u *unit, t interval, why string) {
	if t.from >= t.to || rec.Line == 0 {
		return
	}
	p.Skipped = append(p.Skipped, BadLine{Line: rec.Line, Reason: fmt.Sprintf("%s on %s of %s from %s to %s: skipped, %s",
		rec.label(), u.uuid, u.node, rfc3339(t.from), rfc3339(t.to), why)})
}

// omit lists time of a record that no collector reported and that can't be filled.
func (p *Plan) omit(rec *Record, t interval, why string) {
	if t.from < t.to && rec.Line > 0 {
		p.refused(rec.Line, "%s from %s to %s: %s", rec.label(), rfc3339(t.from), rfc3339(t.to), why)
	}
}

// fill is time that a record fills: a leaf that the record holds, and no collector
// reported.
type fill struct {
	interval
	*target
	owner *wire.Owner
}

// hourFills makes the fill batches of a node and hour, one for each slot that a record
// holds or, if the hour was published before, that no collector reported.
func (p *Plan) hourFills(at nodeHour, exists bool) (out []*wire.Batch) {
	hour := interval{at.hourMS, at.hourMS + meter.HourMS}
	held := map[int64][]*wire.Gpu{} // by start of the slot, Unix ms
	for _, f := range p.fills[at.node] {
		f.interval = interval{max(f.from, hour.from), min(f.to, hour.to)}
		p.hold(held, f)
	}
	for _, g := range p.live.within(at.node, hour) {
		for start := max(g.from, hour.from); start < min(g.to, hour.to); start += p.live.slotMS {
			if len(held[start]) == 0 && !exists {
				continue
			}
			b := p.batch(at.node, start, p.live.slotMS)
			b.Fill, b.Gpus = true, held[start]
			out = append(out, b)
		}
	}
	return out
}

// hold adds a fill to the GPUs of its slots.
func (p *Plan) hold(into map[int64][]*wire.Gpu, f fill) {
	slotMS := p.live.slotMS
	for start := f.from - f.from%slotMS; start < f.to; start += slotMS {
		i := slices.IndexFunc(into[start], func(g *wire.Gpu) bool { return g.Uuid == f.gpu.Uuid })
		if i < 0 {
			i = len(into[start])
			into[start] = append(into[start], proto.CloneOf(f.gpu))
		}
		g := into[start][i]
		if !slices.ContainsFunc(g.Leaves, func(l *wire.Leaf) bool { return l.Id == f.leaf.Id }) {
			g.Leaves = append(g.Leaves, f.leaf)
		}
		g.Holds = append(g.Holds, &wire.Hold{
			Leaf: f.leaf.Id, FromMs: clipped(f.from-start, slotMS), ToMs: clipped(f.to-start, slotMS), Owner: f.owner,
		})
	}
}

// clipped is a bound within the slot; nil if it is the slot's own bound.
func clipped(ms, slotMS int64) *int64 {
	if ms <= 0 || ms >= slotMS {
		return nil
	}
	return &ms
}
