package sim

import (
	"fmt"
	"slices"
	"time"
)

// fleet is the hardware; it never changes.
type fleet struct {
	nodes []node
	homes []home // by lane
}

// home is the place of a lane: the replica of a leaf, which one owner can have.
type home struct{ node, board, leaf int }

// node is a machine with boards of one model.
type node struct {
	Name      string
	Model     string // key in models
	Scheduler scheduler
	Layouts   []string // keys in layouts, by board
	boards    []board
}

type board struct {
	layout
	*model
	uuid   string
	seed   uint64
	leaves []leaf
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

func newFleet(root uint64, d *description) *fleet {
	f := &fleet{nodes: d.Nodes}
	for ni := range f.nodes {
		n := &f.nodes[ni]
		for bi, division := range n.Layouts {
			seed := derive(deriveName(root, n.Name), int64(bi))
			b := board{layout: d.Layouts[division], model: d.Models[n.Model], uuid: "GPU-" + uuidOf(seed), seed: seed}
			for li := range b.leafCount() {
				l := newLeaf(b, li, len(f.homes))
				f.homes = append(f.homes, slices.Repeat([]home{{ni, bi, li}}, l.lanes)...)
				b.leaves = append(b.leaves, l)
			}
			n.boards = append(n.boards, b)
		}
	}
	return f
}

func (l layout) leafCount() int {
	if l.MIG {
		return len(l.Instances)
	}
	return 1
}

// newLeaf numbers GPU instances as the driver does: 1g from 7 upwards, others by position (NVML GPU-instance ids).
func newLeaf(b board, i, lane int) leaf {
	l := leaf{
		id: "gpu", slices: b.model.Slices, gi: -1, memoryMiB: b.model.MemoryMib,
		lane: lane, lanes: max(1, int(b.Replicas)), seed: derive(b.seed, int64(i)+1),
	}
	if b.MIG {
		in := b.Instances[i]
		l.slices, l.profile, l.memoryMiB = in.Slices, in.Profile, in.MemoryMib
		l.gi = int64(i) + 1
		if in.Slices == 1 {
			l.gi = int64(i) + 7
		}
		l.id = fmt.Sprintf("gi%d", l.gi)
	}
	l.dynNum = (b.MaxWatts - b.RestWatts - restWander + 1) * int64(l.slices)
	l.dynDen = int64(b.model.Slices) * int64(l.lanes) * ppm
	return l
}

// lanesOf returns the lanes of places.
func (f *fleet) lanesOf(places []place) []int {
	var out []int
	for _, p := range places {
		for _, b := range p.Boards {
			for i, l := range f.nodes[f.nodeOf(p.Node)].boards[b].leaves {
				if len(p.Leaves) == 0 || slices.Contains(p.Leaves, i) {
					out = append(out, l.lane+p.Replica)
				}
			}
		}
	}
	return out
}

func (f *fleet) nodeOf(name string) int {
	return slices.IndexFunc(f.nodes, func(n node) bool { return n.Name == name })
}

func (f *fleet) at(lane int) (*board, *leaf) {
	h := f.homes[lane]
	b := &f.nodes[h.node].boards[h.board]
	return b, &b.leaves[h.leaf]
}

// exists is the time around at in which the board's instances exist: from instancesFrom into the UTC month to its
// end.
func (b *board) exists(atMS int64) span {
	if b.InstancesFrom == 0 {
		return span{-1 << 62, 1 << 62}
	}
	t := time.UnixMilli(atMS).UTC()
	first := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	return span{first.Add(b.InstancesFrom).UnixMilli(), first.AddDate(0, 1, 0).UnixMilli()}
}

// migUUID changes whenever the instances are created again.
func (l *leaf) migUUID(existsFrom int64) string {
	return "MIG-" + uuidOf(derive(l.seed, existsFrom))
}
