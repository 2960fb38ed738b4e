package sim

import (
	"fmt"
	"slices"
	"time"
)

const day = 24 * time.Hour

// Validate refuses a configuration that contradicts itself; the error names
// the field and its value.
func (c Config) Validate() error {
	switch {
	case c.Cluster == "":
		return fmt.Errorf("cluster is empty")
	case c.WindowFrom.IsZero() || !c.WindowTo.After(c.WindowFrom):
		return fmt.Errorf("window_to %s: must be after window_from %s", c.WindowTo, c.WindowFrom)
	case len(c.Nodes) == 0:
		return fmt.Errorf("nodes is empty")
	}
	if err := unique("models", c.Models, func(m Model) string { return m.Name }); err != nil {
		return err
	}
	if err := unique("nodes", c.Nodes, func(n Node) string { return n.Name }); err != nil {
		return err
	}
	if err := unique("tenants", c.Tenants, func(t Tenant) string { return t.Name }); err != nil {
		return err
	}
	for _, check := range []func() error{c.checkModels, c.checkNodes, c.checkTenants, c.checkWorkloads, c.checkIncidents, c.checkFailures} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func unique[T any](field string, items []T, name func(T) string) error {
	seen := make(map[string]bool, len(items))
	for i, item := range items {
		n := name(item)
		if n == "" || seen[n] {
			return fmt.Errorf("%s[%d].name %q: must be set and unique", field, i, n)
		}
		seen[n] = true
	}
	return nil
}

func (c Config) checkModels() error {
	for i, m := range c.Models {
		if m.Slices == 0 || m.QuietWatts < 0 || m.MaxWatts <= m.QuietWatts || m.MemoryMiB <= 0 {
			return fmt.Errorf("models[%d] (%s): needs slices %d, memory_mib %d above zero and max_watts %d above quiet_watts %d",
				i, m.Name, m.Slices, m.MemoryMiB, m.MaxWatts, m.QuietWatts)
		}
	}
	return nil
}

func (c Config) checkNodes() error {
	for i, n := range c.Nodes {
		m := slices.IndexFunc(c.Models, func(m Model) bool { return m.Name == n.Model })
		if m < 0 {
			return fmt.Errorf("nodes[%d] (%s): model %q is not in models", i, n.Name, n.Model)
		}
		if n.Scheduler != Kubernetes && n.Scheduler != Slurm {
			return fmt.Errorf("nodes[%d] (%s): scheduler %q: must be kubernetes or slurm", i, n.Name, n.Scheduler)
		}
		for j, b := range n.Boards {
			if err := b.check(c.Models[m]); err != nil {
				return fmt.Errorf("nodes[%d] (%s): boards[%d]: %w", i, n.Name, j, err)
			}
		}
	}
	return nil
}

func (b Board) check(m Model) error {
	if !b.MIG && len(b.Instances) > 0 {
		return fmt.Errorf("instances: %d without mig", len(b.Instances))
	}
	if b.MIG && b.Replicas > 0 {
		return fmt.Errorf("replicas %d: only a whole GPU is time-sliced", b.Replicas)
	}
	if b.InstancesFrom < 0 || b.InstancesFrom >= 28*day {
		return fmt.Errorf("instances_from %s: must lie in the first 28 days", b.InstancesFrom)
	}
	sum := uint32(0)
	for i, in := range b.Instances {
		if in.Profile == "" || in.Slices == 0 || in.MemoryMiB <= 0 {
			return fmt.Errorf("instances[%d]: profile %q, slices %d and memory_mib %d must be set", i, in.Profile, in.Slices, in.MemoryMiB)
		}
		sum += in.Slices
	}
	if sum > m.Slices {
		return fmt.Errorf("instances have %d slices, the model has %d", sum, m.Slices)
	}
	return nil
}

func (c Config) checkTenants() error {
	for i, t := range c.Tenants {
		if _, err := time.LoadLocation(t.Zone); err != nil {
			return fmt.Errorf("tenants[%d] (%s): zone %q: %w", i, t.Name, t.Zone, err)
		}
		if t.WorkFrom < 0 || t.WorkTo <= t.WorkFrom || t.WorkTo > day {
			return fmt.Errorf("tenants[%d] (%s): work_from %s to work_to %s: must lie in one day", i, t.Name, t.WorkFrom, t.WorkTo)
		}
		if len(t.Projects) == 0 || len(t.Users) == 0 {
			return fmt.Errorf("tenants[%d] (%s): projects and users must not be empty", i, t.Name)
		}
	}
	return nil
}

func (c Config) hasTenant(name string) bool {
	return slices.ContainsFunc(c.Tenants, func(t Tenant) bool { return t.Name == name })
}

func (c Config) checkWorkloads() error {
	taken := map[laneKey]int{}
	for i, w := range c.Workloads {
		if err := c.checkWorkload(w); err != nil {
			return fmt.Errorf("workloads[%d] (%s): %w", i, w.Name, err)
		}
		keys, err := c.laneKeys(w.Places)
		if err != nil {
			return fmt.Errorf("workloads[%d] (%s): %w", i, w.Name, err)
		}
		for _, k := range keys {
			if other, ok := taken[k]; ok {
				return fmt.Errorf("workloads[%d] (%s): %s is taken by workloads[%d] (%s)", i, w.Name, k, other, c.Workloads[other].Name)
			}
			taken[k] = i
			if w.Gang && k.node != keys[0].node {
				return fmt.Errorf("workloads[%d] (%s): gang spans nodes %q and %q", i, w.Name, keys[0].node, k.node)
			}
		}
	}
	return nil
}

func (c Config) checkWorkload(w Workload) error {
	if !c.hasTenant(w.Tenant) {
		return fmt.Errorf("tenant %q is not in tenants", w.Tenant)
	}
	if w.FillPercent < 1 || w.FillPercent > 100 {
		return fmt.Errorf("fill_percent %d: must be 1 to 100", w.FillPercent)
	}
	switch w.Kind {
	case Training, Inference:
		if w.Cycle < time.Hour || w.Cycle > 7*day {
			return fmt.Errorf("cycle %s: must be an hour to seven days", w.Cycle)
		}
	case Batch:
		if w.Cycle < time.Minute || day%w.Cycle != 0 || w.Jobs < 1 || w.Jobs > int64(w.Cycle/(30*time.Second)) {
			return fmt.Errorf("cycle %s with %d jobs: must divide the day and leave 30 s a job", w.Cycle, w.Jobs)
		}
	case Notebook:
		if w.Gang {
			return fmt.Errorf("gang: a notebook has one leaf")
		}
	default:
		return fmt.Errorf("kind %q: must be training, notebook, inference or batch", w.Kind)
	}
	return nil
}

func (c Config) checkIncidents() error {
	for i, r := range c.Incidents {
		switch {
		case r.Kind != IdleAllocation && r.Kind != OffHoursSpike:
			return fmt.Errorf("incidents[%d].kind %q: must be %s or %s", i, r.Kind, IdleAllocation, OffHoursSpike)
		case !c.hasTenant(r.Tenant):
			return fmt.Errorf("incidents[%d].tenant %q is not in tenants", i, r.Tenant)
		case r.Label == "":
			return fmt.Errorf("incidents[%d].label is empty", i)
		case r.Saturday < 1 || r.Saturday > 4 || r.DayOffset < -6 || r.DayOffset > 6:
			return fmt.Errorf("incidents[%d]: saturday %d, day_offset %d: must be 1 to 4 and -6 to 6", i, r.Saturday, r.DayOffset)
		case r.At < 0 || r.At >= day || r.Length <= 0 || r.Length > 7*day:
			return fmt.Errorf("incidents[%d]: at %s for %s: must begin in a day and last at most a week", i, r.At, r.Length)
		}
		keys, err := c.laneKeys(r.Places)
		if err != nil {
			return fmt.Errorf("incidents[%d] (%s): %w", i, r.Label, err)
		}
		for _, k := range keys {
			if c.board(k.node, k.board).Replicas > 1 {
				return fmt.Errorf("incidents[%d] (%s): %s is time-sliced: an incident needs the leaf to itself", i, r.Label, k)
			}
		}
	}
	return nil
}

func (c Config) checkFailures() error {
	for i, f := range c.Failures {
		n := slices.IndexFunc(c.Nodes, func(n Node) bool { return n.Name == f.Node })
		switch {
		case n < 0:
			return fmt.Errorf("failures[%d].node %q is not in nodes", i, f.Node)
		case f.Board < 0 || f.Board >= len(c.Nodes[n].Boards):
			return fmt.Errorf("failures[%d].board %d: %s has %d boards", i, f.Board, f.Node, len(c.Nodes[n].Boards))
		case f.Day < 1 || f.Day > 28:
			return fmt.Errorf("failures[%d].day %d: must be 1 to 28", i, f.Day)
		case f.At < 0 || f.At >= day || f.Length < 0 || f.Length > day:
			return fmt.Errorf("failures[%d]: at %s for %s: must begin in a day and last at most one", i, f.At, f.Length)
		}
		switch f.Kind {
		case GPULost, GPUUnhealthy, AttributionFailure, EnergyReset:
		case NodeReboot, ExporterGap:
			// Energy over the blind time is read in the day in which it ends.
			if f.At+f.Length >= day {
				return fmt.Errorf("failures[%d] (%s): at %s for %s: must end within its day", i, f.Kind, f.At, f.Length)
			}
		default:
			return fmt.Errorf("failures[%d].kind %q is not known", i, f.Kind)
		}
	}
	return nil
}
