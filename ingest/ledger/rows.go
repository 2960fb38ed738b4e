package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/tenants"
)

// usageRowOf makes the ledger's row of a GPU-hour, with tenants according to the
// mapping in that hour.
func usageRowOf(hour time.Time, g *meter.GPUHour, d *dictionary, m *tenants.Mapping) *tables.Usage {
	r := &tables.Usage{
		Hour: hour.UTC(), GPU: g.GPU, Node: g.Node, Model: g.Model,
		Slices: uint32(g.Slices), GPUSlices: uint16(g.Kind.GPUSlices(g.Slices)), PresentMS: uint32(g.PresentMS),
		Free: uint64(g.Free), Stranded: uint64(g.Stranded), Unhealthy: uint64(g.Unhealthy), Unobserved: uint64(g.Unobserved),
		UnobservedAttribution: uint64(g.UnobservedAttribution), PlatformEnergyMJ: g.PlatformEnergyMJ,
		UnattributedMJ: g.UnattributedMJ,
	}
	if g.Kind == meter.OpenPool {
		r.Unknown = 1
	}
	known := make(map[lineKey]int, len(g.Owners))
	rest := make(map[int][]meter.RestRun, len(g.Owners))
	for _, u := range g.Owners {
		i := addOwner(r, u, known, d, m)
		rest[i] = append(rest[i], u.Rest...)
	}
	for i := range r.Owner {
		addRest(r, i, rest[i])
	}
	return r
}

// lineKey identifies an owner's line in the row of a GPU-hour.
type lineKey struct {
	owner, leaf, profile string
	slices               uint16
}

// addOwner adds an owner's use to the row. Uses with the same leaf name and owner make
// one line: an instance that was recreated under the same name, and an owner of whom
// more facts became known.
func addOwner(r *tables.Usage, u meter.OwnerUse, known map[lineKey]int, d *dictionary,
	m *tenants.Mapping,
) (line int) {
	leaf, owner := d.leaves[u.Leaf], d.owners[u.Owner]
	key := lineKey{owner: owner.id, leaf: leaf.Leaf, profile: leaf.Profile}
	if leaf.Profile != "" { // a whole GPU, and a part of a pool, has no profile to price
		key.slices = uint16(leaf.Slices)
	}
	i, ok := known[key]
	if !ok {
		i = len(r.Owner)
		known[key] = i
		tenant, project := m.At(r.Hour, owner.facts)
		r.Leaf, r.Profile, r.ProfileSlices = append(r.Leaf, leaf.Leaf), append(r.Profile,
			leaf.Profile), append(r.ProfileSlices, key.slices)
		r.Owner, r.Tenant, r.Project = append(r.Owner, u.Owner), append(r.Tenant, tenant), append(r.Project, project)
		r.User, r.Workload = append(r.User, owner.user()), append(r.Workload, owner.facts.Workload())
		r.Active, r.Idle, r.Unproven = append(r.Active, 0), append(r.Idle, 0), append(r.Unproven, 0)
		r.Inferred, r.Work, r.EnergyMJ = append(r.Inferred, 0), append(r.Work, 0), append(r.EnergyMJ, 0)
		r.Parked = append(r.Parked, 0)
	}
	r.Active[i] += uint64(u.Active)
	r.Idle[i] += uint64(u.Idle)
	r.Unproven[i] += uint64(u.Unproven)
	r.Inferred[i] += uint64(u.Inferred)
	r.Work[i] += uint64(u.Work)
	r.EnergyMJ[i] += u.EnergyMJ
	r.Parked[i] += uint64(u.Parked)
	return i
}

// addRest adds the stretches without work of a line. Those of several uses are put in
// order and joined where they meet.
func addRest(r *tables.Usage, line int, runs []meter.RestRun) {
	slices.SortFunc(runs, func(a, b meter.RestRun) int { return cmp.Compare(a.FromMS, b.FromMS) })
	for i, run := range runs {
		n := len(r.RestFrom) - 1
		if i > 0 && runs[i-1].ToMS == run.FromMS && runs[i-1].Grade == run.Grade {
			r.RestMS[n] += uint32(run.ToMS - run.FromMS)
			r.RestSliceMS[n] += uint64(run.SliceMS)
			r.RestReleased[n] = bit(run.Released)
			continue
		}
		r.RestOwner, r.RestFrom = append(r.RestOwner, uint16(line)), append(r.RestFrom, uint32(run.FromMS))
		r.RestMS, r.RestSliceMS = append(r.RestMS, uint32(run.ToMS-run.FromMS)), append(r.RestSliceMS, uint64(run.SliceMS))
		r.RestGrade = append(r.RestGrade, uint8(run.Grade))
		r.RestReleased = append(r.RestReleased, bit(run.Released))
	}
}

func bit(v bool) uint8 {
	if v {
		return 1
	}
	return 0
}

// sightingRowOf converts a sighting in an hour to a table row.
func sightingRowOf(cluster string, h hourState, s *meter.Sighting) tables.Sighting {
	return tables.Sighting{
		Cluster: cluster, Hour: h.start, GPU: s.GPU, Node: s.Node, Model: s.Model, FirstMS: s.FirstMS, LastMS: s.LastMS,
		RunFromMS: s.RunFromMS, SlicesFirst: uint32(s.SlicesFirst), SlicesLast: uint32(s.SlicesLast),
		KindFirst: uint8(s.KindFirst), KindLast: uint8(s.KindLast), Version: h.version(),
	}
}

func sightingOf(r *tables.Sighting) meter.Sighting {
	return meter.Sighting{
		HourMS: r.Hour.UnixMilli(), GPU: r.GPU, Node: r.Node, Model: r.Model, FirstMS: r.FirstMS, LastMS: r.LastMS,
		RunFromMS: r.RunFromMS, SlicesFirst: int(r.SlicesFirst), SlicesLast: int(r.SlicesLast),
		KindFirst: meter.Kind(r.KindFirst), KindLast: meter.Kind(r.KindLast),
	}
}
