package exporter

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/wire"
)

// forgetAfter is how long a GPU that is no longer listed is remembered: as long
// as the inventory keeps it (retire_after, R2).
const forgetAfter = 24 * time.Hour

// gpuPlace is where a GPU was seen. Exporters that wrongly show one UUID, as
// clones of a machine image may, are different GPUs on different nodes.
type gpuPlace struct{ node, uuid string }

// memory is what of a GPU outlives a scrape.
type memory struct {
	seen      time.Time // last scrape that listed it
	energyMJ  float64   // the counter's last value
	energyAt  time.Time // where that value was first seen; zero: never
	energyOf  string    // the target that showed it
	xids      map[xidPlace]float64
	unhealthy map[xidPlace]bool
}

// xidPlace is where an XID was recorded: an instance, or the board.
type xidPlace struct {
	instance bool
	gi       uint32
}

func newMemory() *memory {
	return &memory{xids: map[xidPlace]float64{}, unhealthy: map[xidPlace]bool{}}
}

// moveEnergy sets the energy fields from the counter's movement, and reports a
// reset. A counter that stands still says nothing: the exporter may serve old
// text, and no board draws 0 W. Another target's counter may be another one, so
// it moves only against itself.
func (m *memory) moveEnergy(g *wire.Gpu, counter float64, target string, at time.Time) (reset bool) {
	old, since := m.energyMJ, m.energyAt
	first := since.IsZero() || m.energyOf != target
	if !first && counter == old {
		return false
	}
	m.energyMJ, m.energyAt, m.energyOf = counter, at, target
	if first {
		return false
	}
	reset = counter < old
	moved := int64(counter - old)
	if reset {
		moved = int64(counter)
	}
	span := at.Sub(since).Round(time.Millisecond).Milliseconds()
	g.EnergyMj, g.EnergySpanMs, g.EnergyReset = &moved, &span, reset
	return reset
}

// moveXID takes the XID that a row shows and returns it when it is news. The
// first value ever, of an exporter that was there before, is old news.
func (m *memory) moveXID(place xidPlace, xid float64, fatal []int64) (code int64, news bool) {
	old, known := m.xids[place]
	m.xids[place] = xid
	if !known || old == xid || xid == 0 {
		return 0, false
	}
	code = int64(xid)
	if slices.Contains(fatal, code) {
		m.unhealthy[place] = true
	}
	return code, true
}

// heal forgets the flags: the driver was reloaded, or the GPU reset.
func (m *memory) heal() { clear(m.unhealthy) }
