package wire

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

const hourMS = 3_600_000

// Validate refuses a batch that contradicts itself. The error names the field, the value and the place. Values out of
// a metric's range are not errors: they are treated as absent.
func Validate(b *Batch) error {
	c := checker{slotMS: b.SlotMs, parts: len(b.Observed) + 1}
	if err := validateHead(b); err != nil {
		return err
	}
	if err := c.withinLimits(b); err != nil {
		return err
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
		if g.Uuid == "" {
			return fmt.Errorf("gpus[%d].uuid is empty", i)
		}
		if err := c.name("uuid", g.Uuid); err != nil {
			return fmt.Errorf("gpus[%d]: %w", i, err)
		}
		if uuids[g.Uuid] {
			return fmt.Errorf("gpus[%d].uuid %q is listed twice", i, g.Uuid)
		}
		uuids[g.Uuid] = true
		err := c.gpu(g)
		if err == nil {
			err = c.crowds(g)
		}
		if err != nil {
			return fmt.Errorf("gpus[%d] (%s): %w", i, g.Uuid, err)
		}
	}
	return c.ownersText(b)
}

// validateHead checks the sender, the slot and the origin.
func validateHead(b *Batch) error {
	for _, f := range identityOf(b) {
		if f.value == "" {
			return fmt.Errorf("%s is empty", f.name)
		}
	}
	for _, e := range [...]struct {
		name  string
		value int32
		known map[int32]string
	}{
		{"attribution", int32(b.Attribution), Attribution_name},
		{"enumeration", int32(b.Enumeration), Enumeration_name},
		{"origin", int32(b.Origin), Origin_name},
	} {
		if e.known[e.value] == "" {
			return fmt.Errorf("%s %d: not a known value", e.name, e.value)
		}
	}
	switch {
	case !validSlot(b.SlotMs):
		return fmt.Errorf("slot_ms %d: must be whole seconds that divide the hour", b.SlotMs)
	case b.ClusterSlotMs != 0 && !validSlot(b.ClusterSlotMs):
		return fmt.Errorf("cluster_slot_ms %d: must be whole seconds that divide the hour", b.ClusterSlotMs)
	case b.SlotStartMs < 0 || b.SlotStartMs%b.SlotMs != 0:
		return fmt.Errorf("slot %d: must be a multiple of slot_ms %d", b.SlotStartMs, b.SlotMs)
	case b.SlotStartMs < MinTimeMS:
		return over("slot %d: is before 2000-01-01T00:00:00Z", b.SlotStartMs)
	case b.SlotStartMs > MaxTimeMS-b.SlotMs:
		return over("slot %d: is after 2106-02-07T06:28:16Z", b.SlotStartMs)
	case b.BootMs < 0:
		return fmt.Errorf("boot_ms %d: must not be negative", b.BootMs)
	}
	return nil
}

// namedText is a field's name and value.
type namedText struct{ name, value string }

// identityOf are the fields that identify the sender.
func identityOf(b *Batch) [3]namedText {
	return [...]namedText{{"cluster", b.Cluster}, {"node", b.Node}, {"collector", b.Collector}}
}

func validSlot(ms int64) bool { return ms > 0 && hourMS%ms == 0 && ms%1000 == 0 }

func validateObserved(b *Batch) error {
	last := int64(0)
	for i, o := range b.Observed {
		if o.FromMs < last || o.ToMs <= o.FromMs || o.ToMs > b.SlotMs {
			return fmt.Errorf("observed[%d] [%d, %d): must be ascending, disjoint and within the slot of %d ms",
				i, o.FromMs, o.ToMs, b.SlotMs)
		}
		last = o.ToMs
	}
	return nil
}

// validateFill checks that a fill has only what records contain: who held which leaf of which board (R18).
func validateFill(b *Batch) error {
	switch {
	case b.Origin != Origin_ORIGIN_IMPORT:
		return fmt.Errorf("origin %s: a fill must have origin import", b.Origin)
	case !AttributionOK(b) || EnumerationComplete(b) || b.Unobserved || len(b.Observed) > 0:
		return errors.New("attribution, enumeration or observed: " +
			"allocation records have holds only")
	case len(b.Events) > 0:
		return fmt.Errorf("%d events: allocation records have none", len(b.Events))
	}
	for i, g := range b.Gpus {
		if g.Pool || g.Lost || g.Unhealthy || g.EnergyMj != nil || g.PowerWatts != nil || len(g.MetricFields) > 0 {
			return fmt.Errorf("gpus[%d] (%s): pool, health, energy and metrics are not in allocation records", i, shown(g.Uuid))
		}
		for j, l := range g.Leaves {
			if l.Unhealthy || l.SmActive != nil || l.GrEngineActive != nil || l.GpuUtil != nil ||
				len(l.MetricFields) > 0 {
				return fmt.Errorf("gpus[%d].leaves[%d] (%s): health and evidence are not in allocation records", i, j, shown(l.Id))
			}
		}
	}
	return nil
}

func (c *checker) gpu(g *Gpu) error {
	switch {
	case g.GetEnergyMj() < 0:
		return fmt.Errorf("energy_mj %d: must not be negative", g.GetEnergyMj())
	case g.GetEnergySpanMs() < 0:
		return fmt.Errorf("energy_span_ms %d: must not be negative", g.GetEnergySpanMs())
	case g.Slices > MaxSlices && !g.Pool:
		return over("slices %d: more than %d", g.Slices, MaxSlices)
	case len(g.Leaves) > MaxBoardLeaves && !g.Pool:
		return over("leaves: %d, more than %d", len(g.Leaves), MaxBoardLeaves)
	case g.UnknownCapacity && !g.Pool:
		return errors.New("unknown_capacity: only allowed for a pool")
	}
	if err := cmp.Or(c.name("model", g.Model), validateMetrics(g.MetricFields, g.MetricValues)); err != nil {
		return err
	}
	if g.Pool {
		if err := validatePool(g); err != nil {
			return err
		}
	}
	leaves := make(map[string]bool, len(g.Leaves))
	for i, l := range g.Leaves {
		if err := c.leaf(g, l); err != nil {
			return fmt.Errorf("leaves[%d] (%s): %w", i, shown(l.Id), err)
		}
		if leaves[l.Id] {
			return fmt.Errorf("leaves[%d].id %q is listed twice", i, l.Id)
		}
		leaves[l.Id] = true
	}
	if err := validateInstances(g, c.slotMS); err != nil {
		return err
	}
	for i, h := range g.Holds {
		if !leaves[h.Leaf] {
			return fmt.Errorf("holds[%d].leaf %s is not a leaf of this GPU", i, shown(h.Leaf))
		}
		if err := cmp.Or(validateSpan(h.FromMs, h.ToMs, c.slotMS), c.owner(h.Owner)); err != nil {
			return fmt.Errorf("holds[%d]: %w", i, err)
		}
	}
	return nil
}

func (c *checker) leaf(g *Gpu, l *Leaf) error {
	switch {
	case l.Id == "":
		return errors.New("id is empty")
	case l.Slices > MaxSlices && !g.Pool:
		return over("slices %d: more than %d", l.Slices, MaxSlices)
	case l.Replicas > MaxReplicas:
		return over("replicas %d: more than %d", l.Replicas, MaxReplicas)
	}
	return cmp.Or(
		c.name("id", l.Id), c.name("profile", l.Profile), c.name("mig_uuid", l.MigUuid),
		validateSpan(l.FromMs, l.ToMs, c.slotMS), validateMetrics(l.MetricFields, l.MetricValues),
	)
}

func validateMetrics(fields []uint32, values []float64) error {
	switch {
	case len(fields) > MaxMetrics:
		return over("metric_fields: %d, more than %d", len(fields), MaxMetrics)
	case len(fields) != len(values):
		return fmt.Errorf("metric_fields and metric_values differ in length: %d and %d", len(fields), len(values))
	}
	return nil
}

// validatePool checks that a pool has only what can be known of many GPUs together: their number, and how much of
// them each allocation took (R18).
func validatePool(g *Gpu) error {
	switch {
	case g.Slices < 1 || g.Slices > MaxPoolSlices:
		return fmt.Errorf("slices %d: a pool has 1 to %d milli-GPUs", g.Slices, MaxPoolSlices)
	case g.Mig:
		return errors.New("mig: a pool has no MIG mode")
	case g.EnergyMj != nil:
		return errors.New("energy_mj: a pool has no energy counter")
	}
	for i, l := range g.Leaves {
		switch {
		case l.Slices < 1 || l.Slices > MaxPoolSlices:
			return fmt.Errorf("leaves[%d].slices %d: an allocation of a pool has 1 to %d milli-GPUs",
				i, l.Slices, MaxPoolSlices)
		case l.Gi != nil || l.Ci != nil || l.Profile != "" || l.MigUuid != "":
			return fmt.Errorf("leaves[%d] (%s): a pool has no MIG instances", i, shown(l.Id))
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

// validateInstances refuses a GPU instance and its own compute instances at the same time: the same slices would
// count twice.
func validateInstances(g *Gpu, slotMS int64) error {
	type compute struct {
		from int64
		to   int64 // the latest end of this and all earlier ones
		id   string
	}
	var computes map[uint32][]compute // by GPU instance
	for _, l := range g.Leaves {
		if lo, hi := Span(l.FromMs, l.ToMs, slotMS); l.Gi != nil && l.Ci != nil && lo < hi {
			if computes == nil {
				computes = map[uint32][]compute{}
			}
			computes[*l.Gi] = append(computes[*l.Gi], compute{lo, hi, l.Id})
		}
	}
	for _, list := range computes {
		slices.SortFunc(list, func(x, y compute) int { return cmp.Compare(x.from, y.from) })
		for i := 1; i < len(list); i++ {
			if before := list[i-1]; before.to > list[i].to {
				list[i].to, list[i].id = before.to, before.id
			}
		}
	}
	for i, l := range g.Leaves {
		if l.Gi == nil || l.Ci != nil || computes[*l.Gi] == nil {
			continue
		}
		lo, hi := Span(l.FromMs, l.ToMs, slotMS)
		list := computes[*l.Gi]
		n, _ := slices.BinarySearchFunc(list, hi, func(c compute, hi int64) int { return cmp.Compare(c.from, hi) })
		if n > 0 && lo < hi && list[n-1].to > lo {
			return fmt.Errorf("leaves[%d] (%s): GPU instance %d overlaps its own compute instance %s",
				i, l.Id, *l.Gi, list[n-1].id)
		}
	}
	return nil
}
