package local

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/collector/source/gpustate"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

// Batch returns what was observed of the node in a slot. GPUs with contradictory data are left out and named in the
// error, and the enumeration is then partial. The state file is written before it returns: a crash before the batch
// is spooled loses the slot with its energy, but counts no energy twice.
func (b *Builder) Batch(slot source.Slot, r Reading) (*wire.Batch, error) {
	b.restore()
	if len(r.GPUs) == 0 && !r.Complete {
		b.Blind(r.At)
	} else {
		b.Look(r.At, r.GPUs)
	}
	out := slot.Batch(b.deps.Cluster, b.deps.Node)
	out.Attribution = wire.Attribution_ATTRIBUTION_FAILED // until a tracker adds the owners
	if !r.Complete {
		out.Enumeration = wire.Enumeration_ENUMERATION_PARTIAL
	}
	b.blind.observe(slot, r.At, out)
	// Resets first: an XID of the same slot came after the reset, since a GPU isn't reset within a slot of an error.
	gpus := make([]*wire.Gpu, len(r.GPUs))
	for i := range r.GPUs {
		gpu := &r.GPUs[i]
		gpus[i] = &wire.Gpu{Uuid: gpu.UUID, Model: gpu.Model, Index: gpu.Index, Mig: gpu.MIG}
		if !gpu.Lost {
			b.energy(slot, r, gpu, gpus[i], out)
		}
	}
	out.Events = append(out.Events, b.happened(slot, r)...)
	var errs []error
	for i := range r.GPUs {
		g, err := b.gpu(slot, r, &r.GPUs[i], gpus[i], out)
		if err != nil {
			b.metrics.unresolved.WithLabelValues(cmp.Or(r.GPUs[i].Model, "unknown")).Inc()
			errs = append(errs, fmt.Errorf("gpu %s left out: %w", r.GPUs[i].UUID, err))
			out.Enumeration = wire.Enumeration_ENUMERATION_PARTIAL
			continue
		}
		out.Gpus = append(out.Gpus, g)
	}
	for uuid, l := range b.layouts {
		if l.forget(slot.End()); !listed(r.GPUs, uuid) {
			delete(b.layouts, uuid) // removed; if it reappears, it is new
		}
	}
	b.memory.Forget(r.At)
	b.save()
	return out, errors.Join(errs...)
}

func listed(boards []GPU, uuid string) bool {
	return slices.ContainsFunc(boards, func(gpu GPU) bool { return gpu.UUID == uuid })
}

// happened stores the XIDs and returns their events.
func (b *Builder) happened(slot source.Slot, r Reading) (events []*wire.Event) {
	for _, x := range r.XIDs {
		mem := b.memory.GPU(gpustate.Place{Node: b.deps.Node, UUID: x.UUID}, r.At)
		mem.Happened(x.Part, x.Code, b.cfg.FatalXIDs)
		b.metrics.xids.WithLabelValues(strconv.FormatInt(x.Code, 10)).Inc()
		events = append(events, &wire.Event{
			AtMs: slot.AtMS(x.At), Gpu: x.UUID, Leaf: partName(x.Part), Kind: "xid",
			Code: x.Code,
		})
	}
	return events
}

// gpu returns what is known of a GPU; events are added to the batch.
func (b *Builder) gpu(slot source.Slot, r Reading, gpu *GPU, g *wire.Gpu, out *wire.Batch) (*wire.Gpu, error) {
	mem := b.memory.GPU(gpustate.Place{Node: b.deps.Node, UUID: gpu.UUID}, r.At)
	if gpu.Lost {
		return b.lost(slot, r, gpu, out), nil
	}
	model, known := b.cfg.Models.Of(gpu.Model)
	g.Slices = cmp.Or(gpu.Slices, uint32(model.Slices))
	if gpu.MIG && gpu.Slices == 0 && !known {
		return nil, fmt.Errorf("MIG is on, but the slices of model %q are unknown: name them under models", gpu.Model)
	}
	if model.IdleWatts > 0 {
		g.IdleWatts = &model.IdleWatts
	}
	g.MetricFields, g.MetricValues = b.metricsOf(gpu.Values, boardMetric(gpu.MIG))
	if gpu.MIG && !math.IsNaN(find(gpu.Values, field.GPUUtil)) { // it has no meaning then
		b.metrics.absent.WithLabelValues(absentMIGUtil).Inc()
	}
	// A row that could not be remapped is a level that is read each time; XIDs are stored.
	g.Unhealthy = mem.Unhealthy(gpustate.Whole) || rowRemapFailed(gpu.Values)
	err := b.leaves(slot, gpu, g, mem, model)
	if err == nil {
		b.known[gpu.UUID] = &wire.Gpu{
			Uuid: g.Uuid, Model: g.Model, Index: g.Index, Mig: g.Mig, Slices: g.Slices,
			IdleWatts: g.IdleWatts,
		}
	}
	return g, err
}

// rowRemapFailed is true if the field is 1; a blank is not a failure.
func rowRemapFailed(values []Value) bool {
	v, absent := field.ByID(field.RowRemapFailure).Check(find(values, field.RowRemapFailure))
	return absent == "" && v >= 1
}

// lost returns a GPU that doesn't answer, as last known; an event is added in the slot in which that is first
// noticed. One that was never read has the slices of its model or none: a guess would determine the hour's capacity
// (R2).
func (b *Builder) lost(slot source.Slot, r Reading, gpu *GPU, out *wire.Batch) *wire.Gpu {
	was := b.known[gpu.UUID]
	if was == nil {
		was = &wire.Gpu{Uuid: gpu.UUID, Model: gpu.Model, Index: gpu.Index, Slices: gpu.Slices}
		if model, known := b.cfg.Models.Of(gpu.Model); known && was.Slices == 0 {
			was.Slices = uint32(model.Slices)
		}
		b.known[gpu.UUID] = was
	}
	if !was.Lost {
		was.Lost = true
		out.Events = append(out.Events, &wire.Event{AtMs: slot.AtMS(r.At), Gpu: gpu.UUID, Kind: "lost"})
	}
	return &wire.Gpu{
		Uuid: was.Uuid, Model: was.Model, Index: was.Index, Mig: was.Mig, Slices: was.Slices,
		IdleWatts: was.IdleWatts, Lost: true,
	}
}

// energy updates the counter, and clears the flags of a GPU that was reset.
func (b *Builder) energy(slot source.Slot, r Reading, gpu *GPU, g *wire.Gpu, out *wire.Batch) {
	mem := b.memory.GPU(gpustate.Place{Node: b.deps.Node, UUID: gpu.UUID}, r.At)
	at := r.At
	if !gpu.EnergyAt.IsZero() {
		at = gpu.EnergyAt
	}
	reset := gpu.Reset
	if counter, ok := b.checked(field.EnergyMJ, find(gpu.Values, field.EnergyMJ)); ok &&
		mem.MoveEnergy(g, counter, "", at) {
		reset = true
	}
	if reset {
		g.EnergyReset = g.EnergyMj != nil
		mem.Heal()
		b.metrics.resets.Inc()
		out.Events = append(out.Events, &wire.Event{AtMs: slot.AtMS(r.At), Gpu: gpu.UUID, Kind: "reset"})
	}
	if span := g.GetEnergySpanMs(); g.EnergyMj != nil && !g.EnergyReset && span > 0 &&
		span <= slot.Length.Milliseconds()*3/2 {
		watts := float64(g.GetEnergyMj()) / float64(span)
		g.PowerWatts = &watts
		return
	}
	g.PowerWatts = b.pointer(field.PowerWatts, gpu.Values)
}

// leaves adds the GPU's leaves.
func (b *Builder) leaves(slot source.Slot, gpu *GPU, g *wire.Gpu, mem *gpustate.GPU, model meter.Model) error {
	l := b.layouts[gpu.UUID]
	ids := make(map[string]bool, len(l.spans))
	var errs []error
	changed := false
	for _, s := range l.spans {
		from, to, ok := s.within(slot.Start, slot.End())
		if !ok {
			continue
		}
		changed = changed || from != nil || to != nil
		leaf, err := b.leaf(s.key, gpu, g, mem, model, s.to.IsZero())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		leaf.FromMs, leaf.ToMs = from, to
		for n := 2; ids[leaf.Id]; n++ { // created again under the same ids
			leaf.Id = instanceName(s.key) + "." + strconv.Itoa(n)
		}
		ids[leaf.Id] = true
		g.Mig = g.Mig || s.key != whole
		g.Leaves = append(g.Leaves, leaf)
	}
	if changed {
		b.metrics.changes.Inc()
	}
	return errors.Join(errs...)
}

// leaf returns one leaf; only one that still exists has values.
func (b *Builder) leaf(k Key, gpu *GPU, g *wire.Gpu, mem *gpustate.GPU, model meter.Model, present bool) (*wire.Leaf,
	error,
) {
	leaf := &wire.Leaf{Id: instanceName(k), Slices: g.Slices}
	values := gpu.Values
	if k != whole {
		n := k.Slices
		if n == 0 {
			n = uint32(model.Profiles[meter.BaseProfile(k.Profile)])
		}
		if n == 0 {
			return nil, fmt.Errorf("profile %q of GPU instance %d is unknown for model %q: name it under models", k.Profile,
				k.GI, gpu.Model)
		}
		leaf.Slices, leaf.Profile, leaf.MigUuid, leaf.Gi = n, k.Profile, k.UUID, &k.GI
		part := gpustate.Instance(k.GI)
		leaf.Unhealthy = mem.Unhealthy(part)
		if k.CI >= 0 {
			ci := uint32(k.CI)
			leaf.Ci = &ci
			leaf.Unhealthy = leaf.Unhealthy || mem.Unhealthy(gpustate.ComputeInstance(k.GI, ci))
		}
		values = nil
		if i := slices.IndexFunc(gpu.Instances, func(in Instance) bool { return in.Key == k }); i >= 0 {
			values = gpu.Instances[i].Values
		}
	}
	if !present {
		return leaf, nil
	}
	leaf.SmActive, leaf.GrEngineActive = b.pointer(field.SMActive, values), b.pointer(field.GREngineActive, values)
	if k != whole {
		leaf.MetricFields, leaf.MetricValues = b.metricsOf(values, instanceMetric)
		return leaf, nil
	}
	leaf.GpuUtil = b.pointer(field.GPUUtil, values)
	return leaf, nil
}

// instanceName is a leaf's id.
func instanceName(k Key) string {
	if k == whole {
		return "gpu"
	}
	part := gpustate.Instance(k.GI)
	if k.CI >= 0 {
		part = gpustate.ComputeInstance(k.GI, uint32(k.CI))
	}
	return partName(part)
}

// partName is the id of a part's leaf; empty: the GPU.
func partName(p gpustate.Part) string {
	switch {
	case p.GI < 0:
		return ""
	case p.CI < 0:
		return "gi" + strconv.FormatInt(p.GI, 10)
	}
	return "gi" + strconv.FormatInt(p.GI, 10) + "ci" + strconv.FormatInt(p.CI, 10)
}

// boardMetric returns which fields are metrics of a GPU: those without a place of their own, and with MIG the
// activity, which is not a leaf's then.
func boardMetric(mig bool) func(id uint32) bool {
	return func(id uint32) bool {
		switch id {
		case field.MIGMode, field.MIGMaxSlices, field.PowerWatts, field.EnergyMJ, field.XID:
			return false
		case field.GPUUtil:
			return false
		case field.GREngineActive, field.SMActive:
			return mig
		}
		return true
	}
}

// instanceMetric excludes the GPU's fields that are read on an instance.
func instanceMetric(id uint32) bool {
	return field.OnInstance(id) && id != field.XID && id != field.SMActive && id != field.GREngineActive
}

// metricsOf returns the possible and wanted values.
func (b *Builder) metricsOf(values []Value, wanted func(id uint32) bool) (ids []uint32, vals []float64) {
	ids, vals = make([]uint32, 0, len(values)), make([]float64, 0, len(values))
	for _, v := range values {
		if !wanted(v.ID) {
			continue
		}
		if good, ok := b.checked(v.ID, v.V); ok {
			ids, vals = append(ids, v.ID), append(vals, good)
		}
	}
	return ids, vals
}

// pointer returns a possible value; nil: it is absent.
func (b *Builder) pointer(id uint32, values []Value) *float64 {
	if v, ok := b.checked(id, find(values, id)); ok {
		return &v
	}
	return nil
}

// checked returns whether a value is possible, and counts one that isn't. NaN means that it was not read.
func (b *Builder) checked(id uint32, v float64) (float64, bool) {
	if math.IsNaN(v) {
		return 0, false
	}
	absent := ""
	if f := field.ByID(id); f != nil {
		v, absent = f.Check(v)
	} else if field.IsBlank(v) || math.IsInf(v, 0) { // a field of the configuration
		absent = field.AbsentBlank
	}
	if absent != "" {
		b.metrics.absent.WithLabelValues(absent).Inc()
		return 0, false
	}
	return v, true
}
