package devices

import (
	"maps"

	source "github.com/gpuledger/gpuledger/collector/source/memory"
	"github.com/gpuledger/gpuledger/internal/wire"
)

// memory is what is kept of boards from slot to slot. Clones of a machine image
// may show one UUID on two nodes.
type memory map[source.Place]*board

type board struct {
	gpu      *wire.Gpu // identity only
	endMS    int64     // end of the last slot that listed it
	startMS  int64     // start of that slot
	energyMJ int64     // since the first slot seen
	energy   bool      // there is a counter
	xids     map[string]int64
}

// take moves the boards of a batch on. A slot that comes again moves nothing twice.
func (m memory) take(b *wire.Batch) {
	for _, g := range b.Gpus {
		place := source.Place{Node: b.Node, UUID: g.Uuid}
		brd := m[place]
		first := brd == nil
		if first {
			brd = &board{startMS: -1, xids: map[string]int64{}}
			m[place] = brd
		}
		if b.SlotStartMs > brd.startMS {
			brd.move(g, b.SlotMs, first)
		}
		brd.gpu = &wire.Gpu{Uuid: g.Uuid, Model: g.Model, Index: g.Index, Mig: g.Mig, Slices: g.Slices, Lost: true}
		brd.startMS, brd.endMS = b.SlotStartMs, b.SlotStartMs+b.SlotMs
	}
	for _, e := range b.Events {
		if brd := m[source.Place{Node: b.Node, UUID: e.Gpu}]; brd != nil {
			brd.happened(e)
		}
	}
}

// move counts the energy. What moved before the first slot, while no collector
// ran, is not of this collector's time: increase() would see none of it.
func (b *board) move(g *wire.Gpu, slotMS int64, first bool) {
	if g.EnergyMj == nil {
		return
	}
	b.energy = true
	if !first || g.GetEnergySpanMs() <= slotMS*3/2 {
		b.energyMJ += g.GetEnergyMj()
	}
}

// happened remembers the last XID of the board (empty) and of each leaf, as field
// 230 does: until the board is reset or the driver reloaded.
func (b *board) happened(e *wire.Event) {
	switch e.Kind {
	case "xid":
		b.xids[e.Leaf] = e.Code
	case "reset":
		clear(b.xids)
	}
}

// forget drops boards that haven't been listed for as long as the inventory keeps
// them (R2), by the newest slot.
func (m memory) forget() {
	newest := int64(0)
	for _, b := range m {
		newest = max(newest, b.endMS)
	}
	maps.DeleteFunc(m, func(_ source.Place, b *board) bool { return newest-b.endMS > source.ForgetAfter.Milliseconds() })
}

// missing are the boards of a node that its complete enumeration doesn't list any
// more: they are lost (R2), unless another node lists them since.
func (m memory) missing(b *wire.Batch) []*wire.Gpu {
	if !wire.EnumerationComplete(b) {
		return nil
	}
	since := map[string]int64{}
	for place, brd := range m {
		since[place.UUID] = max(since[place.UUID], brd.startMS)
	}
	var out []*wire.Gpu
	for place, brd := range m {
		if place.Node == b.Node && brd.startMS < b.SlotStartMs && brd.startMS == since[place.UUID] {
			out = append(out, brd.gpu)
		}
	}
	return out
}
