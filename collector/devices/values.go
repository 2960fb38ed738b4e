package devices

import (
	"slices"

	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

// fieldValue is a DCGM field's value in the field's unit.
type fieldValue struct {
	id    uint32
	value float64
}

type fieldValues []fieldValue

func (f fieldValues) has(id uint32) bool {
	return slices.ContainsFunc(f, func(v fieldValue) bool { return v.id == id })
}

// without removes the fields of others.
func (f fieldValues) without(others fieldValues) fieldValues {
	return slices.DeleteFunc(f, func(v fieldValue) bool { return others.has(v.id) })
}

func (f fieldValues) maybe(id uint32, v *float64) fieldValues {
	if v == nil {
		return f
	}
	return append(f, fieldValue{id, *v})
}

func (f fieldValues) metrics(ids []uint32, values []float64) fieldValues {
	for i := range min(len(ids), len(values)) {
		f = append(f, fieldValue{ids[i], values[i]})
	}
	return f
}

// leafValues adds a leaf's values.
func leafValues(f fieldValues, l *wire.Leaf) fieldValues {
	return f.maybe(field.SMActive, l.SmActive).maybe(field.GREngineActive, l.GrEngineActive).maybe(field.GPUUtil,
		l.GpuUtil).
		metrics(l.MetricFields, l.MetricValues)
}

// boardValues adds a GPU's values.
func boardValues(f fieldValues, g *wire.Gpu) fieldValues {
	mig := flag(g.Mig)
	return f.maybe(field.MIGMode, &mig).maybe(field.PowerWatts, g.PowerWatts).metrics(g.MetricFields, g.MetricValues)
}

// boardHolding adds up the holders of a GPU's leaves.
type boardHolding struct {
	slices int // of the GPU
	held   int // slices of held leaves
	all    holding
}

func (b *boardHolding) add(h holding, slices int) {
	if len(h.owners) == 0 {
		return
	}
	b.held += slices
	for _, o := range h.owners {
		b.all.add(o)
	}
	if b.all.entries > 0 && b.all.container != h.container {
		h.container = ""
	}
	b.all.container = h.container
	b.all.entries += h.entries
}

// holding is the GPU's: one owner counts only with all of its slices.
func (b *boardHolding) holding() holding {
	if len(b.all.owners) == 1 && b.held < b.slices {
		return holding{}
	}
	return b.all
}

// use is a leaf's time by use, in slice-ms.
type use struct{ active, idle, capacity int64 }

// leafUse returns the use of a leaf's rows, found by their identity; none if the source doesn't report the leaf's
// slices.
func leafUse(l *wire.Leaf, settled *meter.GPUSlot) (u use) {
	id := meter.Leaf{ID: l.Id, Slices: int(l.Slices), Profile: l.Profile, GI: -1, CI: -1, MIGUUID: l.MigUuid}
	if l.Gi != nil {
		id.GI = int32(*l.Gi)
	}
	if l.Ci != nil {
		id.CI = int32(*l.Ci)
	}
	hash := id.Hash()
	for _, r := range settled.Rows {
		if r.Leaf != hash || r.Bucket == meter.Pending {
			continue
		}
		u.capacity += r.SliceMS
		switch r.Bucket {
		case meter.Active:
			u.active += r.SliceMS
		case meter.Idle:
			u.idle += r.SliceMS
		}
	}
	return u
}
