package gpustate

import (
	"slices"
	"time"

	"github.com/gputally/gputally/internal/wire"
)

// Part is a part of a GPU with its own XIDs and flags: an instance by NVML's ids, or the GPU itself.
type Part struct{ GI, CI int64 } // -1: none

// Whole is the GPU itself.
var Whole = Part{GI: -1, CI: -1}

// Instance returns a GPU instance.
func Instance(gi uint32) Part { return Part{GI: int64(gi), CI: -1} }

// ComputeInstance returns a compute instance of a GPU instance.
func ComputeInstance(gi, ci uint32) Part { return Part{GI: int64(gi), CI: int64(ci)} }

// GPU is the state of one GPU.
type GPU struct {
	seen      time.Time // last reading that listed it
	energy    energy    // in the last spooled batch
	pending   energy    // in the last reading, until that is spooled
	xids      map[Part]float64
	unhealthy map[Part]bool
}

// energy is a counter's value; a zero at: none.
type energy struct {
	mj float64
	at time.Time // when that value was first seen
	of string    // the exporter that reported it
}

func newGPU() *GPU { return &GPU{xids: map[Part]float64{}, unhealthy: map[Part]bool{}} }

// MoveEnergy sets the energy fields from the counter's increase, in mJ, and returns whether it was reset. An
// unchanged counter is ignored: it may be cached text, and no GPU draws 0 W. Counters of different exporters may
// differ, so each is compared only with itself. Until Commit the next increase starts at the same value again.
func (m *GPU) MoveEnergy(g *wire.Gpu, counter float64, exporter string, at time.Time) (reset bool) {
	old := m.energy
	first := old.at.IsZero() || old.of != exporter
	if !first && counter == old.mj {
		return false
	}
	m.pending = energy{counter, at, exporter}
	if first {
		m.energy = m.pending
		return false
	}
	reset = counter < old.mj
	moved := int64(counter - old.mj)
	if reset {
		moved = int64(counter)
	}
	span := at.Sub(old.at).Round(time.Millisecond).Milliseconds()
	g.EnergyMj, g.EnergySpanMs, g.EnergyReset = &moved, &span, reset
	return reset
}

// maxParts bounds the parts of a GPU whose XIDs are kept: MIG has at most 7 instances with 7 compute instances each,
// but an exporter can report new ids in each slot.
const maxParts = 128

// MoveXID takes a part's last XID and returns it if it is new. The first value of a GPU that existed before is not
// new. If a GPU has too many parts, the values of all of them are forgotten and the next ones count as first.
func (m *GPU) MoveXID(part Part, xid float64, fatal []int64) (code int64, news bool) {
	old, known := m.xids[part]
	if !known && len(m.xids) >= maxParts {
		clear(m.xids)
	}
	m.xids[part] = xid
	if !known || old == xid || xid == 0 {
		return 0, false
	}
	m.Happened(part, int64(xid), fatal)
	return int64(xid), true
}

// Happened takes an XID that is known to be new; a fatal one marks the part as unhealthy, or the GPU itself if too many
// parts are marked.
func (m *GPU) Happened(part Part, xid int64, fatal []int64) {
	if !slices.Contains(fatal, xid) {
		return
	}
	if len(m.unhealthy) >= maxParts {
		part = Whole
	}
	m.unhealthy[part] = true
}

// Unhealthy returns whether a part is marked.
func (m *GPU) Unhealthy(part Part) bool { return m.unhealthy[part] }

// Heal clears the marks: the driver was reloaded, or the GPU reset.
func (m *GPU) Heal() { clear(m.unhealthy) }
