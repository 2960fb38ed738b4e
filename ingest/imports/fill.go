package imports

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/gputally/gputally/internal/meter"
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
func (g *gap) lay(rows []layoutRow, leaves map[uint64]leafRow) {
	byGPU := map[string][]leafRow{}
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
			whole.leaf = parts[0].wire()
		default:
			whole.why = fmt.Sprintf("is partitioned into %d MIG instances there: name one by its MIG UUID", len(parts))
			g.instances(board, parts)
		}
	}
}

func (g *gap) instances(board *wire.Gpu, parts []leafRow) {
	cut := proto.CloneOf(board)
	cut.Mig = true
	for _, l := range parts {
		if l.MIGUUID != "" {
			g.targets[l.MIGUUID] = &target{gpu: cut, leaf: l.wire()}
		}
	}
}

func (l *leafRow) wire() *wire.Leaf {
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

// judge lists the time of the file's records that is skipped or refused, and counts
// the time that is filled.
func (p *Plan) judge() {
	p.Filled.SliceMS = map[uint32]int64{}
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
			p.leave(rec, part, why)
			continue
		}
		if untilMS < part.to {
			p.leave(rec, interval{max(part.from, untilMS), part.to},
				fmt.Sprintf("GPU %s is not in the inventory of node %s then", u.uuid, u.node))
			part.to = untilMS
		}
		p.count(t, g, part)
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

// leave lists time of a record that no collector reported and that can't be filled.
func (p *Plan) leave(rec *Record, t interval, why string) {
	if t.from < t.to && rec.Line > 0 {
		p.refused(rec.Line, "%s from %s to %s: %s", rec.label(), rfc3339(t.from), rfc3339(t.to), why)
	}
}

// nodeSlot is a slot of a node, Unix ms.
type nodeSlot struct {
	node   string
	slotMS int64
}

// eachFill sends the encoded fills of all hours whose content differs from what was
// published last, ascending by hour, node and slot. An hour that was published before
// is published again as a whole, with empty batches for slots that are not held any
// more.
func (p *Plan) eachFill(send func(encoded []byte) error) (sent int, err error) {
	nodes := map[string]bool{}
	for _, u := range p.units {
		nodes[u.node] = true
	}
	for at := range p.state.published {
		nodes[at.node] = true
	}
	for _, hourMS := range p.hours {
		fills := p.fillsOf(hourMS)
		for _, node := range slices.Sorted(maps.Keys(nodes)) {
			batches, sum, err := p.hourFills(nodeHour{node, hourMS}, fills)
			if err != nil {
				return sent, err
			}
			for _, b := range batches {
				data, err := p.encodeFill(b, uint64(sent))
				if err != nil {
					return sent, err
				}
				if err := send(data); err != nil {
					return sent, err
				}
				sent++
			}
			if len(batches) > 0 {
				p.published = append(p.published, publishedHour{nodeHour{node, hourMS}, sum})
			}
		}
	}
	return sent, nil
}

// fillsOf returns the GPUs held by records in the unreported slots of an hour.
func (p *Plan) fillsOf(hourMS int64) map[nodeSlot][]*wire.Gpu {
	out := map[nodeSlot][]*wire.Gpu{}
	hour := interval{hourMS, hourMS + meter.HourMS}
	for _, u := range p.units {
		for i := range u.uses {
			x := &u.uses[i]
			if x.from >= hour.to || x.to <= hour.from {
				continue
			}
			for _, g := range p.live.within(u.node, interval{max(x.from, hour.from), min(x.to, hour.to)}) {
				t, untilMS, why := p.live.fillable(u.node, u.uuid, g)
				if why == "" {
					p.fillSlots(out, u, t, x, interval{max(x.from, g.from, hour.from), min(x.to, untilMS, hour.to)})
				}
			}
		}
	}
	return out
}

func (p *Plan) fillSlots(into map[nodeSlot][]*wire.Gpu, u *unit, t *target, x *use, part interval) {
	slotMS := p.live.slotMS
	for start := part.from - part.from%slotMS; start < part.to; start += slotMS {
		at := nodeSlot{u.node, start}
		hold := &wire.Hold{
			Leaf: t.leaf.Id, FromMs: clipped(part.from-start, slotMS), ToMs: clipped(part.to-start, slotMS),
			Owner: x.owner,
		}
		gpus := into[at]
		i := slices.IndexFunc(gpus, func(g *wire.Gpu) bool { return g.Uuid == t.gpu.Uuid })
		if i < 0 {
			i = len(gpus)
			gpus = append(gpus, proto.CloneOf(t.gpu))
		}
		g := gpus[i]
		if !slices.ContainsFunc(g.Leaves, func(l *wire.Leaf) bool { return l.Id == t.leaf.Id }) {
			g.Leaves = append(g.Leaves, t.leaf)
		}
		g.Holds = append(g.Holds, hold)
		into[at] = gpus
	}
}

// clipped is a bound within the slot; nil if it is the slot's own bound.
func clipped(ms, slotMS int64) *int64 {
	if ms <= 0 || ms >= slotMS {
		return nil
	}
	return &ms
}

// hourFills makes the fill batches of a node and hour; none if nothing changed.
func (p *Plan) hourFills(at nodeHour, fills map[nodeSlot][]*wire.Gpu) (out []*wire.Batch, sum [32]byte, err error) {
	before, exists := p.state.published[at]
	content := sha256.New()
	for _, g := range p.live.within(at.node, interval{at.hourMS, at.hourMS + meter.HourMS}) {
		for start := max(g.from, at.hourMS); start < min(g.to, at.hourMS+meter.HourMS); start += p.live.slotMS {
			gpus := fills[nodeSlot{at.node, start}]
			if len(gpus) == 0 && !exists {
				continue
			}
			b := &wire.Batch{
				Format: wire.Format, Cluster: p.o.Cluster, Node: at.node, SlotStartMs: start, SlotMs: p.live.slotMS, Gpus: gpus,
				Fill:        true,
				Attribution: wire.Attribution_ATTRIBUTION_OK, Enumeration: wire.Enumeration_ENUMERATION_PARTIAL,
				Origin: wire.Origin_ORIGIN_IMPORT,
			}
			out = append(out, b)
			if len(gpus) == 0 {
				continue
			}
			data, err := proto.MarshalOptions{Deterministic: true}.Marshal(b)
			if err != nil {
				return nil, sum, fmt.Errorf("encode node %q, slot %s: %w", at.node, rfc3339(start), err)
			}
			content.Write(data)
		}
	}
	if sum = [32]byte(content.Sum(nil)); exists && before == sum {
		return nil, sum, nil
	}
	return out, sum, nil
}

func (p *Plan) encodeFill(b *wire.Batch, seq uint64) ([]byte, error) {
	b.Collector, b.BootMs, b.Seq = p.o.collector(), p.bootMS, seq
	b.WindowFromMs, b.WindowToMs = p.hours[0], p.hours[len(p.hours)-1]+meter.HourMS
	err := wire.Validate(b)
	if err == nil {
		var data []byte
		if data, err = wire.Encode(b); err == nil {
			return data, nil
		}
	}
	return nil, fmt.Errorf("node %q, slot %s: %w", b.Node, rfc3339(b.SlotStartMs), err)
}
