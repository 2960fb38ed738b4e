package meter

import (
	"cmp"
	"slices"

	"github.com/gputally/gputally/internal/wire"
)

// Kind is the kind of an inventory entry. The values are stored.
type Kind uint8

// A pool stands for many GPUs that can't be told apart: its slices are milli-GPUs, and
// each of its leaves is one allocation (R18).
const (
	Board    Kind = 0
	Pool     Kind = 1
	OpenPool Kind = 2 // a pool of unknown capacity: its slices are the most that were in use
)

// PoolGPUSlices is the number of a pool's slices that make one GPU.
const PoolGPUSlices = 1000

func kindOf(g *wire.Gpu) Kind {
	switch {
	case g.UnknownCapacity:
		return OpenPool
	case g.Pool:
		return Pool
	default:
		return Board
	}
}

// GPUSlices is the number of an entry's slices that make one GPU: slice-ms are divided
// by it to get GPU-hours.
func (k Kind) GPUSlices(slices int) int {
	if k == Board {
		return slices
	}
	return PoolGPUSlices
}

// RetireAfterMS is how long an entry stays in the inventory after it was last listed
// (R2). A pool of unknown capacity doesn't stay: outside its allocations it has no
// capacity (R18).
func (k Kind) RetireAfterMS() int64 {
	if k == OpenPool {
		return 0
	}
	return RetireAfterMS
}

// leftOver adds the part of a pool that no allocation covers: free if the pool's
// capacity and all owners are known.
func (s *classifier) leftOver(sliceMS int64) {
	r := Row{Bucket: Free, Why: WhyPoolFree, SliceMS: sliceMS}
	switch {
	case s.failed:
		r.Bucket, r.Why = Pending, WhyAttribution
	case s.kind == OpenPool:
		r.Bucket, r.Why = Unobserved, WhyCapacity
	case s.gpu.Unhealthy:
		r.Bucket, r.Why = Unhealthy, WhyFlagged
	}
	s.add(r, 0, "")
}

// edge is a change in the number of covered slices.
type edge struct {
	at     int64
	slices int
}

// mostSlices is the greatest number of slices that leaves cover at one instant.
func (s *classifier) mostSlices() int {
	edges := make([]edge, 0, 2*len(s.leaves))
	for i := range s.leaves {
		if l := &s.leaves[i]; l.span.from < l.span.to {
			edges = append(edges, edge{l.span.from, l.slices}, edge{l.span.to, -l.slices})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.slices, b.slices))
	})
	most, covered := 0, 0
	for _, e := range edges {
		covered += e.slices
		most = max(most, covered)
	}
	return most
}

// fewLeaves is the number of leaves up to which a linear search of all holds is faster
// than an index.
const fewLeaves = 16

// holdsOf returns the holds of a leaf.
func (s *classifier) holdsOf(leaf string) []*wire.Hold {
	if len(s.gpu.Leaves) <= fewLeaves {
		return s.gpu.Holds
	}
	if s.holds == nil {
		s.holds = make(map[string][]*wire.Hold, len(s.gpu.Leaves))
		for _, h := range s.gpu.Holds {
			s.holds[h.Leaf] = append(s.holds[h.Leaf], h)
		}
	}
	return s.holds[leaf]
}
