package wire

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	hourMS    = 3_600_000
	maxSlices = 1 << 10
	// maxPoolSlices is a million GPUs in milli-GPUs: an hour of it, times what
	// money is counted in, stays within 64 bits.
	maxPoolSlices = 1_000_000_000
	// maxLeaves is how many allocations an hour of a pool may list.
	maxLeaves = 1<<16 - 1
	// maxShares bounds a share's denominator, which settlement keeps in 16 bits.
	maxShares = 1<<16 - 1
	// maxSpanMS (34 years) and maxEnergyMJ (278 MWh) are beyond any counter, and
	// keep an hour's sums within 64 bits.
	maxSpanMS   = 1 << 40
	maxEnergyMJ = 1e15
	// maxTimeMS is 2106-02-07T06:28:16Z, where the seconds of rows end.
	maxTimeMS = 1000 << 32
)

func fieldSize(raw []byte) int {
	_, _, n := protowire.ConsumeField(raw)
	return n
}

// Validate refuses a batch that contradicts itself. The error names the field,
// the value and the place. Values out of a metric's range are not errors: the
// settlement takes them as absent.
func Validate(b *Batch) error {
	for _, f := range []struct{ name, value string }{
		{"cluster", b.Cluster}, {"node", b.Node}, {"collector", b.Collector},
	} {
		if f.value == "" {
			return fmt.Errorf("%s is empty", f.name)
		}
	}
	switch {
	case b.SlotMs <= 0 || hourMS%b.SlotMs != 0 || b.SlotMs%1000 != 0:
		return fmt.Errorf("slot_ms %d: must be whole seconds that divide the hour", b.SlotMs)
	case b.SlotStartMs < 0 || b.SlotStartMs%b.SlotMs != 0:
		return fmt.Errorf("slot %d: must be a multiple of slot_ms %d", b.SlotStartMs, b.SlotMs)
	case b.SlotStartMs > maxTimeMS-b.SlotMs:
		return fmt.Errorf("slot %d: rows can't carry a time after 2106-02-07T06:28:16Z", b.SlotStartMs)
	case b.BootMs < 0:
		return fmt.Errorf("boot_ms %d: must not be negative", b.BootMs)
	}
	if err := validateObserved(b); err != nil {
		return err
	}
	if b.Fill {
		if err := validateFill(b); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	uuids := make(map[string]bool, len(b.Gpus))
	for i, g := range b.Gpus {
		switch {
		case g.Uuid == "":
			return fmt.Errorf("gpus[%d].uuid is empty", i)
		case uuids[g.Uuid]:
			return fmt.Errorf("gpus[%d].uuid %q is listed twice", i, g.Uuid)
		}
		uuids[g.Uuid] = true
		if err := validateGPU(g, b.SlotMs); err != nil {
			return fmt.Errorf("gpus[%d] (%s): %w", i, g.Uuid, err)
		}
	}
	return nil
}

func validateObserved(b *Batch) error {
	last := int64(0)
	for i, o := range b.Observed {
		if o.FromMs < last || o.ToMs <= o.FromMs || o.ToMs > b.SlotMs {
			return fmt.Errorf("observed[%d] [%d, %d): must be ascending, disjoint and within the slot of %d ms", i, o.FromMs, o.ToMs, b.SlotMs)
		}
		last = o.ToMs
	}
	return nil
}

// validateFill holds a fill to what records can tell: who held which leaf of
// which board (R18).
func validateFill(b *Batch) error {
	switch {
	case b.Origin != Origin_ORIGIN_IMPORT:
		return fmt.Errorf("origin %s: only imports fill", b.Origin)
	case !AttributionOK(b) || EnumerationComplete(b) || b.Unobserved || len(b.Observed) > 0:
		return errors.New("attribution, enumeration or observed: records say who held a leaf, not what was seen of the node")
	case len(b.Events) > 0:
		return fmt.Errorf("%d events: records have none", len(b.Events))
	}
	for i, g := range b.Gpus {
		if g.Pool || g.Lost || g.Unhealthy || g.EnergyMj != nil || g.PowerWatts != nil || len(g.MetricFields) > 0 {
			return fmt.Errorf("gpus[%d] (%s): a pool, health, energy and metrics are not in records", i, g.Uuid)
		}
		for j, l := range g.Leaves {
			if l.Unhealthy || l.SmActive != nil || l.GrEngineActive != nil || l.GpuUtil != nil || len(l.MetricFields) > 0 {
				return fmt.Errorf("gpus[%d].leaves[%d] (%s): health and evidence are not in records", i, j, l.Id)
			}
		}
	}
	return nil
}

func validateGPU(g *Gpu, slotMS int64) error {
	switch {
	case g.GetEnergyMj() < 0:
		return fmt.Errorf("energy_mj %d: must not be negative", g.GetEnergyMj())
	case g.GetEnergyMj() > maxEnergyMJ:
		return fmt.Errorf("energy_mj %d: more than a counter can move", g.GetEnergyMj())
	case g.GetEnergySpanMs() < 0 || g.GetEnergySpanMs() > maxSpanMS:
		return fmt.Errorf("energy_span_ms %d: must be from 0 to %d", g.GetEnergySpanMs(), int64(maxSpanMS))
	case len(g.Holds) > maxShares:
		return fmt.Errorf("%d holds: more than %d", len(g.Holds), maxShares)
	case g.Slices > maxSlices && !g.Pool:
		return fmt.Errorf("slices %d: more than a GPU can have", g.Slices)
	case g.UnknownCapacity && !g.Pool:
		return errors.New("unknown_capacity: only a pool's can be")
	}
	if g.Pool {
		if err := validatePool(g); err != nil {
			return err
		}
	}
	leaves := make(map[string]bool, len(g.Leaves))
	for i, l := range g.Leaves {
		switch {
		case l.Id == "":
			return fmt.Errorf("leaves[%d].id is empty", i)
		case leaves[l.Id]:
			return fmt.Errorf("leaves[%d].id %q is listed twice", i, l.Id)
		case l.Slices > maxSlices && !g.Pool:
			return fmt.Errorf("leaves[%d].slices %d: more than a GPU can have", i, l.Slices)
		case l.Replicas > maxShares:
			return fmt.Errorf("leaves[%d].replicas %d: more than %d", i, l.Replicas, maxShares)
		}
		if len(l.MetricFields) != len(l.MetricValues) {
			return fmt.Errorf("leaves[%d] metric_fields and metric_values differ in length: %d and %d", i, len(l.MetricFields), len(l.MetricValues))
		}
		leaves[l.Id] = true
		if err := validateSpan(l.FromMs, l.ToMs, slotMS); err != nil {
			return fmt.Errorf("leaves[%d] (%s): %w", i, l.Id, err)
		}
	}
	if err := validateInstances(g, slotMS); err != nil {
		return err
	}
	for i, h := range g.Holds {
		if !leaves[h.Leaf] {
			return fmt.Errorf("holds[%d].leaf %q is not a leaf of this GPU", i, h.Leaf)
		}
		if err := validateSpan(h.FromMs, h.ToMs, slotMS); err != nil {
			return fmt.Errorf("holds[%d]: %w", i, err)
		}
		if h.Owner == nil {
			return fmt.Errorf("holds[%d].owner is missing", i)
		}
	}
	if len(g.MetricFields) != len(g.MetricValues) {
		return fmt.Errorf("metric_fields and metric_values differ in length: %d and %d", len(g.MetricFields), len(g.MetricValues))
	}
	return nil
}

// validatePool holds a pool to what can be known of many GPUs at once: how many
// there are, and how much of them each allocation took (R18).
func validatePool(g *Gpu) error {
	switch {
	case g.Slices < 1 || g.Slices > maxPoolSlices:
		return fmt.Errorf("slices %d: a pool has 1 to %d milli-GPUs", g.Slices, maxPoolSlices)
	case len(g.Leaves) > maxLeaves:
		return fmt.Errorf("%d leaves: more than %d", len(g.Leaves), maxLeaves)
	case g.Mig:
		return errors.New("mig: a pool has no MIG mode")
	case g.EnergyMj != nil:
		return errors.New("energy_mj: a pool has no energy counter")
	}
	for i, l := range g.Leaves {
		switch {
		case l.Slices < 1 || l.Slices > maxPoolSlices:
			return fmt.Errorf("leaves[%d].slices %d: an allocation of a pool has 1 to %d milli-GPUs", i, l.Slices, maxPoolSlices)
		case l.Gi != nil || l.Ci != nil || l.Profile != "" || l.MigUuid != "":
			return fmt.Errorf("leaves[%d] (%s): a pool has no MIG instances", i, l.Id)
		}
	}
	return nil
}

func validateSpan(from, to *int64, slotMS int64) error {
	lo, hi := Span(from, to, slotMS)
	if lo < 0 || hi > slotMS || lo > hi {
		return fmt.Errorf("from %d to %d: must lie within the slot of %d ms", lo, hi, slotMS)
	}
	return nil
}

// Span resolves optional bounds to [from, to) within a slot of slotMS.
func Span(from, to *int64, slotMS int64) (lo, hi int64) {
	lo, hi = 0, slotMS
	if from != nil {
		lo = *from
	}
	if to != nil {
		hi = *to
	}
	return lo, hi
}

// validateInstances refuses a GPU instance beside its own compute instances:
// the same slices would count twice.
func validateInstances(g *Gpu, slotMS int64) error {
	for i, l := range g.Leaves {
		if l.Gi == nil || l.Ci != nil {
			continue
		}
		lo, hi := Span(l.FromMs, l.ToMs, slotMS)
		for _, c := range g.Leaves {
			if c.Gi == nil || c.Ci == nil || *c.Gi != *l.Gi {
				continue
			}
			if from, to := Span(c.FromMs, c.ToMs, slotMS); max(lo, from) < min(hi, to) {
				return fmt.Errorf("leaves[%d] (%s): GPU instance %d stands beside its own compute instance %s", i, l.Id, *l.Gi, c.Id)
			}
		}
	}
	return nil
}
