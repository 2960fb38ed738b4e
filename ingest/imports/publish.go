package imports

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

// maxBatchBytes is the size of a message in the topic, minus room for its headers.
const maxBatchBytes = 10<<20 - 64<<10

// nodeHour is one hour of one node.
type nodeHour struct {
	node   string
	hourMS int64
}

// publishedHour is the state of a node's hour as last published: hash and rank.
type publishedHour struct {
	nodeHour
	sum [32]byte
}

// Each sends the encoded batches of all hours whose content differs from what was
// published last, ascending by hour and node.
func (p *Plan) Each(send func(encoded []byte) error) (sent int, err error) {
	if p.live != nil {
		return p.eachFill(send)
	}
	byNode := map[string][]*unit{}
	var nodes []string
	for _, u := range p.units {
		if byNode[u.node] == nil {
			nodes = append(nodes, u.node)
		}
		byNode[u.node] = append(byNode[u.node], u)
	}
	for at := range p.state.published { // hours without records any more are published as empty
		if byNode[at.node] == nil {
			byNode[at.node] = []*unit{}
			nodes = append(nodes, at.node)
		}
	}
	slices.Sort(nodes)
	walks := map[*unit]*walk{}
	for _, u := range p.units {
		walks[u] = &walk{unit: u}
	}
	for _, hourMS := range p.hours {
		for _, node := range nodes {
			data, sum, err := p.hourBatch(nodeHour{node, hourMS}, byNode[node], walks, uint64(sent))
			if err != nil {
				return sent, err
			}
			if data == nil {
				continue
			}
			if err := send(data); err != nil {
				return sent, err
			}
			p.published = append(p.published, publishedHour{nodeHour{node, hourMS}, sum})
			sent++
		}
	}
	return sent, nil
}

// hourBatch makes the batch of a node and hour; nil if nothing changed.
func (p *Plan) hourBatch(at nodeHour, units []*unit, walks map[*unit]*walk,
	seq uint64,
) (data []byte, sum [32]byte, err error) {
	b := &wire.Batch{
		Format: wire.Format, Cluster: p.o.Cluster, Node: at.node, SlotStartMs: at.hourMS, SlotMs: meter.HourMS,
		Attribution: wire.Attribution_ATTRIBUTION_OK, Enumeration: wire.Enumeration_ENUMERATION_PARTIAL,
		Origin: Horizon{NowMS: p.o.NowMS}.origin(at.hourMS),
	}
	for _, u := range units {
		if g := walks[u].gpu(at.hourMS); g != nil {
			b.Gpus = append(b.Gpus, g)
		}
	}
	before, exists := p.state.published[at]
	if len(b.Gpus) == 0 && !exists {
		return nil, sum, nil
	}
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(b)
	if err != nil {
		return nil, sum, fmt.Errorf("encode node %q, hour %s: %w", at.node, rfc3339(at.hourMS), err)
	}
	if sum = sha256.Sum256(content); exists && before == sum {
		return nil, sum, nil
	}
	b.Collector, b.BootMs, b.Seq, b.ClusterSlotMs = p.o.collector(), p.bootMS, seq, meter.HourMS
	b.WindowFromMs, b.WindowToMs = p.hours[0], p.hours[len(p.hours)-1]+meter.HourMS
	err = wire.Validate(b)
	if err == nil {
		data, err = wire.Encode(b)
	}
	if err == nil && len(data) > maxBatchBytes {
		err = fmt.Errorf("the batch has %d bytes, more than a message can hold; give the records nodes, so that the pool "+
			"is split", len(data))
	}
	if err != nil {
		return nil, sum, fmt.Errorf("node %q, hour %s: %w", at.node, rfc3339(at.hourMS), err)
	}
	return data, sum, nil
}

// walk goes through a unit's hours in ascending order.
type walk struct {
	unit *unit
	next int
	open []use // ascending by start
}

// gpu is the unit's state in an hour; nil if it doesn't exist then.
func (w *walk) gpu(hourMS int64) *wire.Gpu {
	u, end := w.unit, hourMS+meter.HourMS
	w.open = slices.DeleteFunc(w.open, func(x use) bool { return x.to <= hourMS })
	for ; w.next < len(u.uses) && u.uses[w.next].from < end; w.next++ {
		if u.uses[w.next].to > hourMS {
			w.open = append(w.open, u.uses[w.next])
		}
	}
	if u.kind() == meter.OpenPool && len(w.open) == 0 || !u.always && u.firstMS >= end {
		return nil
	}
	g := &wire.Gpu{Uuid: u.uuid, Model: u.model}
	if u.board {
		g.Leaves = []*wire.Leaf{{Id: "gpu"}}
	} else {
		g.Pool, g.Slices, g.UnknownCapacity = true, u.capacity, u.capacity == 0
	}
	for _, x := range w.open {
		from, to := inside(x.from-hourMS), inside(x.to-hourMS)
		hold := &wire.Hold{Leaf: "gpu", FromMs: from, ToMs: to, Owner: x.owner}
		if !u.board {
			g.Leaves = append(g.Leaves, &wire.Leaf{Id: x.id, Slices: x.milli, FromMs: from, ToMs: to})
			hold.Leaf, hold.FromMs, hold.ToMs = x.id, nil, nil
		}
		g.Holds = append(g.Holds, hold)
	}
	if g.UnknownCapacity {
		g.Slices = peak(w.open, hourMS)
	}
	return g
}

// inside is a bound within the hour; nil if it is the hour's own bound.
func inside(ms int64) *int64 {
	if ms <= 0 || ms >= meter.HourMS {
		return nil
	}
	return &ms
}

// peak is the greatest use at any instant of the hour, in milli-GPUs.
func peak(uses []use, hourMS int64) uint32 {
	type change struct {
		at    int64
		milli int64
	}
	var changes []change
	for _, x := range uses {
		changes = append(changes, change{max(x.from, hourMS), int64(x.milli)}, change{x.to, -int64(x.milli)})
	}
	slices.SortFunc(changes, func(a,
		b change,
	) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.milli, b.milli))
	})
	var now, most int64
	for _, c := range changes {
		now += c.milli
		if c.at < hourMS+meter.HourMS {
			most = max(most, now)
		}
	}
	return uint32(most)
}
