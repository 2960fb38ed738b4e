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

// Filled is time that records hold and nobody saw, by slices of a GPU.
type Filled struct {
	// SliceMS is by how many slices make one GPU.
	SliceMS map[uint32]int64
	// ShortMS is how many ms of GPUs of it lie in gaps that may be inferred (R10),
	// which comes first.
	ShortMS int64
}

// named keeps the records that say which GPU of which node they held, and lists
// the others.
func (p *Plan) named(records []Record) []Record {
	out := make([]Record, 0, len(records))
	for _, r := range records {
		switch {
		case len(r.Devices) == 0:
			p.refused(r.Line, "%s names no GPU: into a live cluster goes only what does (R18)", r.label())
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

// lay takes the leaves that the last batch before the gap listed.
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
			whole.why = "is a pool"
		case len(parts) == 0:
			whole.why = "was lost, or had no leaf, in the last batch before"
		case covered > r.Slices:
			whole.why = "was cut anew in the last slot before"
		case len(parts) == 1 && parts[0].GI < 0 && parts[0].Profile == "":
			whole.leaf = parts[0].wire()
		default:
			whole.why = fmt.Sprintf("is cut into %d instances there: name one by its MIG UUID", len(parts))
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

// within are the gaps of a node that a time reaches into.
func (l *live) within(node string, t interval) []*gap {
	gaps := l.gaps[node]
	i, _ := slices.BinarySearchFunc(gaps, t.from, func(g *gap, at int64) int { return cmp.Compare(g.to, at+1) })
	j := i
	for j < len(gaps) && gaps[j].from < t.to {
		j++
	}
	return gaps[i:j]
}

// fillable is the leaf that a name has in a gap and until when the inventory has
// it there; else why not.
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

// judge tells what of the file's records is left out, and counts what fills.
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
		p.skip(rec, u, interval{at, g.from}, "a batch tells of it, or nothing was known of the node yet")
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
	p.skip(rec, u, interval{at, x.to}, "a batch tells of it, or the ledger isn't there yet")
}

// count adds a time that fills to the plan's sum, as far as the run speaks of it.
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

// skip notes time of a file's record that somebody saw: it stays as it is.
func (p *Plan) skip(rec *Record, u *unit, t interval, why string) {
	if t.from >= t.to || rec.Line == 0 {
		return
	}
	p.Skipped = append(p.Skipped, BadLine{Line: rec.Line, Reason: fmt.Sprintf("%s on %s of %s from %s to %s: skipped, %s",
		rec.label(), u.uuid, u.node, rfc3339(t.from), rfc3339(t.to), why)})
}

// leave notes time of a file's record that nobody saw and that can't be filled.
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

// eachFill hands over the encoded fills of all hours whose content differs from
// what was said last, ascending by hour, node and slot. An hour that was spoken
// of before is said anew whole, slots that nobody holds any more included.
func (p *Plan) eachFill(send func(encoded []byte) error) (sent int, err error) {
	nodes := map[string]bool{}
	for _, u := range p.units {
		nodes[u.node] = true
	}
	for at := range p.state.said {
		nodes[at.node] = true
	}
	for _, hourMS := range p.hours {
		fills := p.fillsOf(hourMS)
		for _, node := range slices.Sorted(maps.Keys(nodes)) {
			batches, sum, err := p.sayFills(nodeHour{node, hourMS}, fills)
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
				p.said = append(p.said, saidHour{nodeHour{node, hourMS}, sum})
			}
		}
	}
	return sent, nil
}

// fillsOf are the GPUs that records hold in the slots of an hour that nobody saw.
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
		hold := &wire.Hold{Leaf: t.leaf.Id, FromMs: clipped(part.from-start, slotMS), ToMs: clipped(part.to-start, slotMS),
			Owner: x.owner}
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

// clipped is a bound within the slot; nil where the slot itself is the bound.
func clipped(ms, slotMS int64) *int64 {
	if ms <= 0 || ms >= slotMS {
		return nil
	}
	return &ms
}

// sayFills are the fills of a node and hour; none where there is nothing new.
func (p *Plan) sayFills(at nodeHour, fills map[nodeSlot][]*wire.Gpu) (out []*wire.Batch, sum [32]byte, err error) {
	before, spoken := p.state.said[at]
	content := sha256.New()
	for _, g := range p.live.within(at.node, interval{at.hourMS, at.hourMS + meter.HourMS}) {
		for start := max(g.from, at.hourMS); start < min(g.to, at.hourMS+meter.HourMS); start += p.live.slotMS {
			gpus := fills[nodeSlot{at.node, start}]
			if len(gpus) == 0 && !spoken {
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
	if sum = [32]byte(content.Sum(nil)); spoken && before == sum {
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
