package devices

import (
	"maps"
	"slices"

	"github.com/gputally/gputally/collector/source/gpustate"
	"github.com/gputally/gputally/internal/wire"
)

// memory is the state of GPUs from slot to slot, by node and UUID: clones of a machine image may report one UUID on
// two nodes.
type memory map[string]map[string]*board

type board struct {
	gpu      *wire.Gpu // identity only
	startMS  int64     // of the last slot that listed it
	energyMJ int64     // since the first slot
	energy   bool      // the GPU has a counter
	xids     map[string]int64
}

// take updates the GPUs of a batch, and removes those that their node hasn't listed for as long as the inventory
// keeps them (R2). A repeated slot changes nothing.
func (m memory) take(b *wire.Batch) {
	boards := m[b.Node]
	if boards == nil {
		boards = map[string]*board{}
		m[b.Node] = boards
	}
	for _, g := range b.Gpus {
		brd := boards[g.Uuid]
		first := brd == nil
		if first {
			brd = &board{startMS: -1, xids: map[string]int64{}}
			boards[g.Uuid] = brd
		}
		if b.SlotStartMs > brd.startMS {
			brd.move(g, b.SlotMs, first)
		}
		brd.gpu = &wire.Gpu{Uuid: g.Uuid, Model: g.Model, Index: g.Index, Mig: g.Mig, Slices: g.Slices, Lost: true}
		brd.startMS = b.SlotStartMs
	}
	for _, e := range b.Events {
		if brd := boards[e.Gpu]; brd != nil {
			brd.happened(e)
		}
	}
	maps.DeleteFunc(boards, func(_ string, brd *board) bool {
		return b.SlotStartMs-brd.startMS > gpustate.ForgetAfter.Milliseconds()
	})
}

// move adds the energy. Energy before the first slot, while no collector ran, is left out, since increase() wouldn't
// count it.
func (b *board) move(g *wire.Gpu, slotMS int64, first bool) {
	if g.EnergyMj == nil {
		return
	}
	b.energy = true
	if !first || g.GetEnergySpanMs() <= slotMS*3/2 {
		b.energyMJ += g.GetEnergyMj()
	}
}

// happened stores the last XID of the GPU (empty) and of each leaf, like field 230: until the GPU is reset or the
// driver reloaded.
func (b *board) happened(e *wire.Event) {
	switch e.Kind {
	case "xid":
		b.xids[e.Leaf] = e.Code
	case "reset":
		clear(b.xids)
	}
}

// missing returns the GPUs of a node that its complete enumeration no longer lists: they are lost (R2), unless
// another node has listed them since.
func (m memory) missing(b *wire.Batch) (out []*wire.Gpu) {
	if !wire.EnumerationComplete(b) {
		return nil
	}
	boards := m[b.Node]
	for _, uuid := range slices.Sorted(maps.Keys(boards)) {
		if brd := boards[uuid]; brd.startMS < b.SlotStartMs && !m.listedAfter(uuid, brd.startMS) {
			out = append(out, brd.gpu)
		}
	}
	return out
}

func (m memory) listedAfter(uuid string, ms int64) bool {
	for _, boards := range m {
		if brd := boards[uuid]; brd != nil && brd.startMS > ms {
			return true
		}
	}
	return false
}
