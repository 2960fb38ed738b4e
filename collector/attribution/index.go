package attribution

import (
	"slices"
	"strings"

	"github.com/gputally/gputally/internal/wire"
)

// place is a leaf on a board.
type place struct {
	gpu  *wire.Gpu
	leaf *wire.Leaf
}

// index finds the leaves of a reader's device.
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

// find returns the leaves of a device: for a board all of its leaves; for a GPU instance its compute instances, or
// itself if none are listed.
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

// isMIG returns whether the UUID is a MIG device's. Readers parse the old form MIG-GPU-…/gi/ci themselves.
func isMIG(uuid string) bool { return strings.HasPrefix(uuid, "MIG-") }

// isBoard returns whether a device without a MIG UUID is this board, or on it.
func (x *index) isBoard(g *wire.Gpu, d Device) bool {
	return (d.UUID == "" || d.UUID == g.Uuid) && agrees(d.Index, &g.Index) && agrees(d.Minor, x.minors[g.Uuid])
}

// agrees returns whether a value is the wanted one; nil matches any.
func agrees(want, have *uint32) bool {
	return want == nil || (have != nil && *want == *have)
}

func hasInstances(g *wire.Gpu) bool {
	return g.Mig || slices.ContainsFunc(g.Leaves, func(l *wire.Leaf) bool { return l.Gi != nil })
}

// why returns the reason why find found nothing. A device that certainly is not there can't be counted as free; one
// that may be there under another name can.
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

// mayBeLost returns whether a device is a lost board, or may be part of one or of a board that isn't listed.
func (x *index) mayBeLost(d Device) bool {
	if x.batch.Enumeration == wire.Enumeration_ENUMERATION_PARTIAL {
		return true
	}
	return slices.ContainsFunc(x.batch.Gpus, func(g *wire.Gpu) bool {
		return g.Lost &&
			(isMIG(d.UUID) || x.isBoard(g, d))
	})
}
