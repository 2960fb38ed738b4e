package meter

import (
	"cmp"
	"slices"

	"github.com/gputally/gputally/internal/wire"
)

// Kind says what an entry of the inventory is. Values are stored.
type Kind uint8

// A pool is many GPUs that nobody tells apart: its slices are milli-GPUs, each
// of its leaves is one allocation (R18).
const (
	Board    Kind = 0
	Pool     Kind = 1
	OpenPool Kind = 2 // a pool of unknown capacity: its slices are what was in use at most
)

// PoolGPUSlices is how many slices of a pool make one GPU.
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

// GPUSlices is how many of an entry's slices make one GPU: what slice-ms are
// divided by for GPU-hours.
func (k Kind) GPUSlices(slices int) int {
	if k == Board {
		return slices
	}
	return PoolGPUSlices
}

// RetireAfterMS is how long an entry that nobody lists stays in the inventory
// (R2). Where the capacity is not known there is nothing to stay (R18).
func (k Kind) RetireAfterMS() int64 {
	if k == OpenPool {
		return 0
	}
	return RetireAfterMS
}

// leftOver books what no allocation of a pool covers: free, where it is known
// how much there is and who had it.
func (s *settler) leftOver(sliceMS int64) {
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

// edge is a change of how many slices are covered.
type edge struct {
	at     int64
	slices int
}

// mostSlices is the greatest number of slices that leaves cover at any instant.
func (s *settler) mostSlices() int {
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

// fewLeaves is up to where a walk over all holds per leaf beats an index.
const fewLeaves = 16

// holdsOf are the holds of a leaf.
func (s *settler) holdsOf(leaf string) []*wire.Hold {
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
