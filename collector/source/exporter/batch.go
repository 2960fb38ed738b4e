package exporter

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/collector/source/gpustate"
	"github.com/gputally/gputally/internal/wire"
)

// batch returns what is known of a node. GPUs with contradictory data are left out and named in the error; the
// enumeration is then partial.
func (s *Source) batch(n *nodeView, slot source.Slot) (*wire.Batch, error) {
	b := slot.Batch(s.deps.Cluster, n.name)
	if s.cfg.Attribution == AttributionNone {
		b.Attribution = wire.Attribution_ATTRIBUTION_FAILED
	}
	if s.cfg.Enumeration == EnumerationPartial {
		b.Enumeration = wire.Enumeration_ENUMERATION_PARTIAL
	}
	var errs []error
	for _, brd := range n.sorted() {
		gpu, events, err := s.gpu(n.name, brd, slot)
		b.Events = append(b.Events, events...)
		if err != nil {
			s.metrics.unresolved.WithLabelValues(s.modelLabel(brd.model)).Inc()
			errs = append(errs, fmt.Errorf("node %.80q: gpu %.80q left out: %w", n.name, brd.uuid, err))
			b.Enumeration = wire.Enumeration_ENUMERATION_PARTIAL
			continue
		}
		b.Gpus = append(b.Gpus, gpu)
	}
	return b, errors.Join(errs...)
}

// modelLabel is a model's label in metrics, which have at most maxModels.
func (s *Source) modelLabel(model string) string {
	switch known := s.models[model]; {
	case model == "":
		return "unknown"
	case !known && (len(s.models) >= maxModels || len(model) > 100):
		return "other"
	}
	s.models[model] = true
	return model
}

// gpu returns what is known of a GPU. Its counters and flags are updated even if it is left out.
func (s *Source) gpu(node string, b *board, slot source.Slot) (*wire.Gpu, []*wire.Event, error) {
	mem := s.memory.GPU(gpustate.Place{Node: node, UUID: b.uuid}, b.at)
	g := &wire.Gpu{Uuid: b.uuid, Model: b.model, Index: b.index, PowerWatts: b.values.ptr(field.PowerWatts)}
	events := s.remember(g, b, mem, slot)
	mig, inferred := s.migOn(b)
	if inferred {
		s.noteInferred(b)
	}
	if b.trouble != nil {
		return nil, events, b.trouble
	}
	n, err := s.slicesOf(b, mig)
	if err != nil {
		return nil, events, err
	}
	g.Mig, g.Slices = mig, uint32(n)
	if model, _ := s.cfg.Models.Of(b.model); model.IdleWatts > 0 {
		g.IdleWatts = &model.IdleWatts
	}
	g.Unhealthy = mem.Unhealthy(gpustate.Whole)
	if err := s.addLeaves(g, b, mem); err != nil {
		return nil, events, err
	}
	var also []uint32
	if mig { // the parent row's activity is not a leaf's
		also = []uint32{field.GREngineActive, field.SMActive}
	}
	g.MetricFields, g.MetricValues = metricsOf(b.values, also)
	return g, events, nil
}

// remember updates the GPU's counter and XIDs, and returns its events.
func (s *Source) remember(g *wire.Gpu, b *board, mem *gpustate.GPU, slot source.Slot) (events []*wire.Event) {
	if counter, ok := b.values[field.EnergyMJ]; ok && mem.MoveEnergy(g, counter, b.energyOf.name, b.energyAt) {
		mem.Heal()
		events = append(events, &wire.Event{
			AtMs: slot.AtMS(b.energyAt), Gpu: b.uuid, Kind: "reset",
			Detail: "energy counter went down",
		})
	}
	if xid, ok := b.values[field.XID]; ok {
		if code, news := mem.MoveXID(gpustate.Whole, xid, s.cfg.FatalXIDs); news {
			events = append(events, &wire.Event{AtMs: slot.AtMS(b.at), Gpu: b.uuid, Kind: "xid", Code: code})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(b.instances)) {
		xid, ok := b.instances[id].values[field.XID]
		if !ok {
			continue
		}
		if code, news := mem.MoveXID(gpustate.Instance(id), xid, s.cfg.FatalXIDs); news {
			events = append(events, &wire.Event{
				AtMs: slot.AtMS(b.at), Gpu: b.uuid, Leaf: fmt.Sprintf("gi%d", id),
				Kind: "xid", Code: code,
			})
		}
	}
	return events
}

// noteInferred logs once per GPU that its MIG mode was inferred.
func (s *Source) noteInferred(b *board) {
	s.metrics.inferred.Inc()
	if s.guessed.First(b.uuid) {
		s.deps.Log.Warn("MIG mode inferred from missing GPU_UTIL and FB rows: all slices are stranded; export "+
			"DCGM_FI_DEV_MIG_MODE to be sure, or set infer_mig: false",
			"gpu", b.uuid, "model", b.model, "target", b.target.name)
	}
}
