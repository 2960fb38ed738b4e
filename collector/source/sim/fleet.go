package sim

import (
	"fmt"
	"slices"
	"time"
)

// laneKey names one lane: the replica of a leaf that one owner can have.
type laneKey struct {
	node                 string
	board, leaf, replica int
}

func (k laneKey) String() string {
	return fmt.Sprintf("%s board %d leaf %d replica %d", k.node, k.board, k.leaf, k.replica)
}

func (c Config) board(node string, i int) Board {
	n := slices.IndexFunc(c.Nodes, func(n Node) bool { return n.Name == node })
	return c.Nodes[n].Boards[i]
}

// laneKeys resolves places to lanes and refuses what the fleet doesn't have.
func (c Config) laneKeys(places []Place) ([]laneKey, error) {
	var out []laneKey
	for i, p := range places {
		n := slices.IndexFunc(c.Nodes, func(n Node) bool { return n.Name == p.Node })
		if n < 0 {
			return nil, fmt.Errorf("places[%d].node %q is not in nodes", i, p.Node)
		}
		for _, b := range p.Boards {
			if b < 0 || b >= len(c.Nodes[n].Boards) {
				return nil, fmt.Errorf("places[%d]: board %d: %s has %d boards", i, b, p.Node, len(c.Nodes[n].Boards))
			}
			keys, err := p.onBoard(b, c.Nodes[n].Boards[b])
			if err != nil {
				return nil, fmt.Errorf("places[%d]: %w", i, err)
			}
			out = append(out, keys...)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("places name no leaf")
	}
	return out, nil
}

func (p Place) onBoard(b int, board Board) ([]laneKey, error) {
	if p.Replica < 0 || p.Replica >= board.lanes() {
		return nil, fmt.Errorf("replica %d: board %d has %d", p.Replica, b, board.lanes())
	}
	count := board.leafCount()
	want := p.Leaves
	if len(want) == 0 {
		for i := range count {
			want = append(want, i)
		}
	}
	var out []laneKey
	for _, l := range want {
		if l < 0 || l >= count {
			return nil, fmt.Errorf("leaf %d: board %d of %s has %d", l, b, p.Node, count)
		}
		out = append(out, laneKey{p.Node, b, l, p.Replica})
	}
	return out, nil
}

func (b Board) lanes() int { return max(1, int(b.Replicas)) }

func (b Board) leafCount() int {
	if b.MIG {
		return len(b.Instances)
	}
	return 1
}

// fleet is the resolved hardware; it never changes.
type fleet struct {
	nodes []node
	lanes map[laneKey]int
	homes []home // by lane
}

// home is where a lane is.
type home struct {
	node, board, leaf int
}

type node struct {
	Node
	boards []board
	leaves int
}

type board struct {
	Board
	uuid  string
	seed  uint64
	model Model
	leafs []leaf
}

type leaf struct {
	id, profile string
	slices      uint32
	gi          int64 // -1: whole GPU
	memoryMiB   int64
	seed        uint64
	lane        int // first of its lanes
	lanes       int
	// A lane at full activity draws dynNum/dynDen watts above rest.
	dynNum, dynDen int64
}

func newFleet(c Config) *fleet {
	f := &fleet{lanes: map[laneKey]int{}}
	root := deriveName(mix(uint64(c.Seed)), c.Cluster)
	for ni, cn := range c.Nodes {
		m := c.Models[slices.IndexFunc(c.Models, func(m Model) bool { return m.Name == cn.Model })]
		n := node{Node: cn}
		for bi, cb := range cn.Boards {
			seed := derive(deriveName(root, cn.Name), int64(bi))
			b := board{Board: cb, uuid: "GPU-" + uuidOf(seed), seed: seed, model: m}
			for li := range cb.leafCount() {
				l := newLeaf(b, li, len(f.homes))
				for r := range l.lanes {
					f.lanes[laneKey{cn.Name, bi, li, r}] = len(f.homes)
					f.homes = append(f.homes, home{ni, bi, li})
				}
				b.leafs = append(b.leafs, l)
			}
			n.leaves += len(b.leafs)
			n.boards = append(n.boards, b)
		}
		f.nodes = append(f.nodes, n)
	}
	return f
}

// newLeaf numbers GPU instances as the driver does for 1g: from 7 upwards for
// the smallest, by position for the rest (NVML GPU-instance ids).
func newLeaf(b board, i, lane int) leaf {
	l := leaf{id: "gpu", slices: b.model.Slices, gi: -1, memoryMiB: b.model.MemoryMiB, lane: lane, lanes: b.lanes(), seed: derive(b.seed, int64(i)+1)}
	if b.MIG {
		in := b.Instances[i]
		l.slices, l.profile, l.memoryMiB = in.Slices, in.Profile, in.MemoryMiB
		l.gi = int64(i) + 1
		if in.Slices == 1 {
			l.gi = int64(i) + 7
		}
		l.id = fmt.Sprintf("gi%d", l.gi)
	}
	l.dynNum = (b.model.MaxWatts - b.model.QuietWatts - quietWander + 1) * int64(l.slices)
	l.dynDen = int64(b.model.Slices) * int64(l.lanes) * ppm
	return l
}

// laneCount is how many can hold a part of the board at once.
func (b *board) laneCount() int { return len(b.leafs) * b.lanes() }

// exists is the time around at in which the board's instances are there:
// from InstancesFrom into the UTC month to its end.
func (b *board) exists(atMS int64) span {
	if b.InstancesFrom == 0 {
		return span{-1 << 62, 1 << 62}
	}
	t := time.UnixMilli(atMS).UTC()
	first := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	return span{first.Add(b.InstancesFrom).UnixMilli(), first.AddDate(0, 1, 0).UnixMilli()}
}

// migUUID changes whenever the instances are created anew.
func (l *leaf) migUUID(existsFrom int64) string {
	return "MIG-" + uuidOf(derive(l.seed, existsFrom))
}
