// Package decisionstest has what tests need of the decisions.
package decisionstest

import (
	"context"
	"sync"

	"github.com/gpuledger/gpuledger/internal/decisions"
)

// Open are origins of which every run is open, and every cluster is declared
// with the slot length that is asked about first. The zero value works.
type Open struct {
	mu    sync.Mutex
	slots map[string]int64
}

// Refresh reads nothing.
func (o *Open) Refresh(context.Context) error { return nil }

// Leave is given.
func (o *Open) Leave(b decisions.Sent) decisions.Leave {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.slots == nil {
		o.slots = map[string]int64{}
	}
	if o.slots[b.Cluster] == 0 {
		o.slots[b.Cluster] = b.SlotMS
	}
	return decisions.Leave{SlotMS: o.slots[b.Cluster]}
}
