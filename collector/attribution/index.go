package attribution

import (
	"slices"
	"strings"

	"github.com/gputally/gputally/internal/wire"
)

// place is a leaf of a board.
type place struct {
	gpu  *wire.Gpu
	leaf *wire.Leaf
}

// index finds the leaves that a reader's device names.
type index struct {
	batch  *wire.Batch
	minors map[string]*uint32 // by UUID
}

func (t *Tracker) index(b *wire.Batch) *index {
	x := &index{batch: b, minors: map[string]*uint32{}}
	if t.deps.Info == nil {
		return x
	}
	for uuid, g := range t.deps.Info().GPUs {
		x.minors[uuid] = g.Minor
	}
	return x
}

// find lists the leaves of a device: all of a board's, where the board itself
// is named; a GPU instance whose compute instances nobody lists stands for them.
func (x *index) find(d Device) (out []place) {
	mig := isMIG(d.UUID)
	for _, g := range x.batch.Gpus {
		if (!mig && !x.isBoard(g, d)) || (d.Whole && hasInstances(g)) {
			continue
		}
		for _, l := range g.Leaves {
			if (!mig || l.MigUuid == d.UUID) && agrees(d.GI, l.Gi) && (l.Ci == nil || agrees(d.CI, l.Ci)) {
				out = append(out, place{g, l})
			}
		}
	}
	return out
}

// isMIG tells a MIG device's own UUID. The old form MIG-GPU-…/gi/ci is taken
// apart by readers.
func isMIG(uuid string) bool { return strings.HasPrefix(uuid, "MIG-") }

// isBoard says that a device that isn't named by a MIG UUID is this board, or on it.
func (x *index) isBoard(g *wire.Gpu, d Device) bool {
	return (d.UUID == "" || d.UUID == g.Uuid) && agrees(d.Index, &g.Index) && agrees(d.Minor, x.minors[g.Uuid])
}

// agrees says that a fact is as wanted; nil wants nothing.
func agrees(want, have *uint32) bool {
	return want == nil || (have != nil && *want == *have)
}

func hasInstances(g *wire.Gpu) bool {
	return g.Mig || slices.ContainsFunc(g.Leaves, func(l *wire.Leaf) bool { return l.Gi != nil })
}

// why says what is missing where find finds nothing. What is certainly not there
// can't look free; what may be there under another name can.
func (x *index) why(d Device, seen bool) string {
	there := slices.DeleteFunc(slices.Clone(x.batch.Gpus), func(g *wire.Gpu) bool { return g.Lost })
	nameless := func(g *wire.Gpu) bool {
		return slices.ContainsFunc(g.Leaves, func(l *wire.Leaf) bool { return l.Gi != nil && l.MigUuid == "" })
	}
	switch {
	case d.Whole && slices.ContainsFunc(there, func(g *wire.Gpu) bool { return x.isBoard(g, d) }):
		return unresolvedWhole
	case isMIG(d.UUID) && slices.ContainsFunc(there, nameless):
		return unresolvedInstance
	case d.Minor != nil && slices.ContainsFunc(there, func(g *wire.Gpu) bool { return x.minors[g.Uuid] == nil }):
		return unresolvedMinor
	case seen || x.mayBeLost(d):
		return unresolvedGone
	}
	return unresolvedNever
}

// mayBeLost says that a device is a board that is listed as lost, or may be a
// part of one, or of a board that isn't listed at all.
func (x *index) mayBeLost(d Device) bool {
	if x.batch.Enumeration == wire.Enumeration_ENUMERATION_PARTIAL {
		return true
	}
	return slices.ContainsFunc(x.batch.Gpus, func(g *wire.Gpu) bool {
		return g.Lost &&
			(isMIG(d.UUID) || x.isBoard(g, d))
	})
}
