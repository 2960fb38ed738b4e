package exporter

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/collector/source/gpustate"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

// migOn determines whether a GPU has MIG enabled.
func (s *Source) migOn(b *board) (on, inferred bool) {
	mode, said := b.values[field.MIGMode]
	switch {
	case len(b.instances) > 0 || b.migOn || (said && mode == 1):
		return true, false
	case b.migOff || said || !s.cfg.InferMIG:
		return false, false
	}
	inferred = s.looksEmptyMIG(b) && !b.target.silentOnMIG && !b.target.unclear
	return inferred, inferred
}

// looksEmptyMIG recognises a MIG GPU without instances by what DCGM can't read on it (see doc.go). learnTargets has
// checked that the GPU isn't in use.
func (s *Source) looksEmptyMIG(b *board) bool {
	model, _ := s.cfg.Models.Of(b.model)
	answers := b.values.has(field.PowerWatts) || b.values.has(field.EnergyMJ) || b.values.has(field.GPUTemp)
	return model.Slices > 1 && answers && lacksUtilAndFB(b)
}

func lacksUtilAndFB(b *board) bool {
	return !b.values.has(field.GPUUtil) && !b.values.has(field.FBUsed) && !b.values.has(field.FBFree)
}

func inUse(b *board) bool {
	return len(b.owners) > 0 || b.values[field.GREngineActive] >= meter.QuietBelow ||
		b.values[field.SMActive] >= meter.QuietBelow
}

// learnTargets marks the exporters whose missing rows have no meaning: if a GPU without instances lacks them although
// it is in use, which an empty MIG GPU can't be, they aren't exported at all. The mark is permanent: the GPU may be
// idle in the next slot.
func learnTargets(nodes map[string]*nodeView) {
	for _, n := range nodes {
		for _, b := range n.boards {
			if len(b.instances) == 0 && lacksUtilAndFB(b) && inUse(b) {
				b.target.silentOnMIG = true
			}
		}
	}
}

// slicesOf returns the GPU's compute slices: from the device, else from the model, else the number on which all
// models with the instances' profiles agree.
func (s *Source) slicesOf(b *board, mig bool) (int, error) {
	if n, ok := b.values[field.MIGMaxSlices]; ok {
		return int(n), nil
	}
	model, known := s.cfg.Models.Of(b.model)
	if known || !mig {
		return model.Slices, nil
	}
	if b.model != "" || len(b.instances) == 0 {
		return 0, fmt.Errorf("MIG is on, but the slices of model %.80q are unknown: name them under models", b.model)
	}
	slicesOfBoard := 0
	for _, inst := range b.instances {
		_, n, ok := meter.ProfileSlices(inst.profile)
		if !ok || (slicesOfBoard != 0 && n != slicesOfBoard) {
			return 0, fmt.Errorf("no row names the model, and profile %.80q of GPU instance %d does not say how many slices "+
				"the GPU has", inst.profile, inst.id)
		}
		slicesOfBoard = n
	}
	return slicesOfBoard, nil
}

// slicesOfInstance is an instance's compute slices according to the table; the number in the profile's name is not
// used.
func (s *Source) slicesOfInstance(b *board, inst *instance) (int, error) {
	model, _ := s.cfg.Models.Of(b.model)
	if n, ok := model.Profiles[meter.BaseProfile(inst.profile)]; ok {
		return n, nil
	}
	if b.model == "" {
		if n, _, ok := meter.ProfileSlices(inst.profile); ok {
			return n, nil
		}
	}
	return 0, fmt.Errorf("profile %.80q of GPU instance %d is unknown for model %.80q: name it under models",
		inst.profile, inst.id, b.model)
}

// addLeaves adds the GPU's leaves with their holders.
func (s *Source) addLeaves(g *wire.Gpu, b *board, mem *gpustate.GPU) error {
	if !g.Mig {
		g.Leaves = []*wire.Leaf{{
			Id: "gpu", Slices: g.Slices,
			SmActive: b.values.ptr(field.SMActive), GrEngineActive: b.values.ptr(field.GREngineActive),
			GpuUtil: b.values.ptr(field.GPUUtil),
		}}
		g.Holds = append(g.Holds, holds("gpu", &b.device)...)
		return nil
	}
	if b.values.has(field.GPUUtil) {
		s.metrics.absent.WithLabelValues(absentMIGUtil).Inc()
	}
	s.metrics.parentHold.Add(float64(len(b.owners)))
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(b.instances)) {
		inst := b.instances[id]
		n, err := s.slicesOfInstance(b, inst)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		leaf := &wire.Leaf{
			Id: "gi" + strconv.FormatUint(uint64(id), 10), Slices: uint32(n), Profile: inst.profile, Gi: &inst.id,
			SmActive: inst.values.ptr(field.SMActive), GrEngineActive: inst.values.ptr(field.GREngineActive),
			Unhealthy: mem.Unhealthy(gpustate.Instance(id)),
		}
		leaf.MetricFields, leaf.MetricValues = metricsOf(inst.values, nil)
		g.Leaves = append(g.Leaves, leaf)
		g.Holds = append(g.Holds, holds(leaf.Id, &inst.device)...)
	}
	return errors.Join(errs...)
}

func holds(leaf string, d *device) []*wire.Hold {
	out := make([]*wire.Hold, 0, len(d.owners))
	for _, o := range d.holders() {
		out = append(out, &wire.Hold{Leaf: leaf, Owner: o})
	}
	return out
}

// metricsOf returns the values that have no place of their own, by field id; also are fields that have one elsewhere,
// but not here.
func metricsOf(values readings, also []uint32) (ids []uint32, vals []float64) {
	for _, id := range slices.Sorted(maps.Keys(values)) {
		if !ownField(id) || slices.Contains(also, id) {
			ids, vals = append(ids, id), append(vals, values[id])
		}
	}
	return ids, vals
}
