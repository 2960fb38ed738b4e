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
// published last, ascending by hour, node and slot. A node's hour is published as a
// whole: an hour that was published before and is not held any more gets empty batches.
func (p *Plan) Each(send func(encoded []byte) error) (sent int, err error) {
	walks := map[string][]*walk{}
	for _, u := range p.units {
		walks[u.node] = append(walks[u.node], &walk{unit: u})
	}
	nodes := p.nodes()
	for _, hourMS := range p.hours {
		for _, node := range nodes {
			at := nodeHour{node, hourMS}
			before, exists := p.state.published[at]
			var batches []*wire.Batch
			if p.live != nil {
				batches = p.hourFills(at, exists)
			} else {
				batches = p.hourBatch(at, exists, walks[node])
			}
			sum, err := contentOf(batches)
			if err != nil {
				return sent, err
			}
			if len(batches) == 0 || exists && before == sum {
				continue
			}
			for _, b := range batches {
				data, err := p.encode(b, uint64(sent))
				if err != nil {
					return sent, fmt.Errorf("node %q, slot %s: %w", node, rfc3339(b.SlotStartMs), err)
				}
				if err := send(data); err != nil {
					return sent, err
				}
				sent++
			}
			p.published = append(p.published, publishedHour{at, sum})
		}
	}
	return sent, nil
}

// nodes lists the nodes that have records, or had some when they were published last.
func (p *Plan) nodes() []string {
	nodes := map[string]bool{}
	for _, u := range p.units {
		nodes[u.node] = true
	}
	for at := range p.state.published {
		nodes[at.node] = true
	}
	return slices.Sorted(maps.Keys(nodes))
}

// batch is a batch of the source without GPUs and identity.
func (p *Plan) batch(node string, slotStartMS, slotMS int64) *wire.Batch {
	return &wire.Batch{
		Format: wire.Format, Cluster: p.o.Cluster, Node: node, SlotStartMs: slotStartMS, SlotMs: slotMS,
		Attribution: wire.Attribution_ATTRIBUTION_OK, Enumeration: wire.Enumeration_ENUMERATION_PARTIAL,
		Origin: wire.Origin_ORIGIN_IMPORT,
	}
}

// hourBatch makes the batch of a node and hour; none if there is nothing to publish.
func (p *Plan) hourBatch(at nodeHour, exists bool, walks []*walk) []*wire.Batch {
	b := p.batch(at.node, at.hourMS, meter.HourMS)
	b.Origin = Horizon{NowMS: p.o.NowMS}.origin(at.hourMS)
	for _, w := range walks {
		if g := w.gpu(at.hourMS); g != nil {
			b.Gpus = append(b.Gpus, g)
		}
	}
	if len(b.Gpus) == 0 && !exists {
		return nil
	}
	return []*wire.Batch{b}
}

// contentOf is the SHA-256 of batches without their identity. A fill without GPUs has
// no part in it.
func contentOf(batches []*wire.Batch) (sum [32]byte, err error) {
	content := sha256.New()
	for _, b := range batches {
		if b.Fill && len(b.Gpus) == 0 {
			continue
		}
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(b)
		if err != nil {
			return sum, fmt.Errorf("encode node %q, slot %s: %w", b.Node, rfc3339(b.SlotStartMs), err)
		}
		content.Write(data)
	}
	return [32]byte(content.Sum(nil)), nil
}

// encode gives a batch its identity, and encodes it.
func (p *Plan) encode(b *wire.Batch, seq uint64) ([]byte, error) {
	b.Collector, b.BootMs, b.Seq = p.o.collector(), p.bootMS, seq
	b.WindowFromMs, b.WindowToMs = p.hours[0], p.hours[len(p.hours)-1]+meter.HourMS
	if !b.Fill {
		b.ClusterSlotMs = meter.HourMS
	}
	if err := wire.Validate(b); err != nil {
		return nil, err
	}
	data, err := wire.Encode(b)
	if err == nil && len(data) > maxBatchBytes {
		err = fmt.Errorf("the batch has %d bytes, more than a message can hold; give the records nodes, so that the pool "+
			"is split", len(data))
	}
	return data, err
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
		from, to := clipped(x.from-hourMS, meter.HourMS), clipped(x.to-hourMS, meter.HourMS)
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

// peak is the greatest use at any instant of the hour, in milli-GPUs.
func peak(uses []use, hourMS int64) uint32 {
	type change struct{ at, milli int64 }
	var changes []change
	for _, x := range uses {
		changes = append(changes, change{max(x.from, hourMS), int64(x.milli)}, change{x.to, -int64(x.milli)})
	}
	slices.SortFunc(changes, func(x, y change) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.milli, y.milli))
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
