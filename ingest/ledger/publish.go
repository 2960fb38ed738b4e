package ledger

import (
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/tenants"
)

func low() *proto.ColLowCardinality[string] { return new(proto.ColStr).LowCardinality() }

// usageColumns builds a block of usage_hourly.
type usageColumns struct {
	cluster, gpu, node, model                          *proto.ColLowCardinality[string]
	hour                                               proto.ColDateTime
	gpuSlices                                          proto.ColUInt16
	unknown                                            proto.ColUInt8
	slices, present, until, epoch, hourRows            proto.ColUInt32
	inputs, version                                    proto.ColUInt64
	free, stranded, unhealthy, unobserved, attribution proto.ColUInt64
	platformEnergy, unattributed                       proto.ColInt64

	leaf, profile, tenant, project, user *proto.ColArr[string]
	workload                             *proto.ColArr[string]
	profileSlices                        *proto.ColArr[uint16]
	owner                                *proto.ColArr[uint64]
	active, idle, unproven, inferred     *proto.ColArr[uint64]
	work                                 *proto.ColArr[uint64]
	energy                               *proto.ColArr[int64]
}

func newUsageColumns() *usageColumns {
	u64 := func() *proto.ColArr[uint64] { return new(proto.ColUInt64).Array() }
	return &usageColumns{
		cluster: low(), gpu: low(), node: low(), model: low(),
		leaf: low().Array(), profile: low().Array(), tenant: low().Array(), project: low().Array(), user: low().Array(),
		workload: new(proto.ColStr).Array(), profileSlices: new(proto.ColUInt16).Array(), owner: u64(),
		active: u64(), idle: u64(), unproven: u64(), inferred: u64(), work: u64(), energy: new(proto.ColInt64).Array(),
	}
}

// UsageRow is one row of usage_hourly, as written and as read back.
type UsageRow struct {
	Hour                  time.Time `ch:"hour"`
	GPU                   string    `ch:"gpu"`
	Node                  string    `ch:"node"`
	Model                 string    `ch:"model"`
	Slices                uint32    `ch:"slices"`
	GPUSlices             uint16    `ch:"gpu_slices"`
	Unknown               uint8     `ch:"unknown_capacity"`
	PresentMS             uint32    `ch:"present_ms"`
	Free                  uint64    `ch:"free"`
	Stranded              uint64    `ch:"stranded"`
	Unhealthy             uint64    `ch:"unhealthy"`
	Unobserved            uint64    `ch:"unobserved"`
	UnobservedAttribution uint64    `ch:"unobserved_attribution"`
	PlatformEnergyMJ      int64     `ch:"platform_energy_mj"`
	UnattributedMJ        int64     `ch:"unattributed_mj"`
	Leaf                  []string  `ch:"leaf"`
	Profile               []string  `ch:"profile"`
	ProfileSlices         []uint16  `ch:"profile_slices"`
	Owner                 []uint64  `ch:"owner"`
	Tenant                []string  `ch:"tenant"`
	Project               []string  `ch:"project"`
	User                  []string  `ch:"user"`
	Workload              []string  `ch:"workload"`
	Active                []uint64  `ch:"active"`
	Idle                  []uint64  `ch:"idle"`
	Unproven              []uint64  `ch:"unproven"`
	Inferred              []uint64  `ch:"inferred"`
	Work                  []uint64  `ch:"work"`
	EnergyMJ              []int64   `ch:"energy_mj"`
}

// usageRowOf names the owners of a GPU-hour as the mapping has them in that hour.
func usageRowOf(hour time.Time, g *meter.GPUHour, d *dictionary, m *tenants.Mapping) *UsageRow {
	r := &UsageRow{
		Hour: hour.UTC(), GPU: g.GPU, Node: g.Node, Model: g.Model,
		Slices: uint32(g.Slices), GPUSlices: uint16(g.Kind.GPUSlices(g.Slices)), PresentMS: uint32(g.PresentMS),
		Free: uint64(g.Free), Stranded: uint64(g.Stranded), Unhealthy: uint64(g.Unhealthy), Unobserved: uint64(g.Unobserved),
		UnobservedAttribution: uint64(g.UnobservedAttribution), PlatformEnergyMJ: g.PlatformEnergyMJ, UnattributedMJ: g.UnattributedMJ,
	}
	if g.Kind == meter.OpenPool {
		r.Unknown = 1
	}
	known := make(map[lineKey]int, len(g.Owners))
	for _, u := range g.Owners {
		r.addOwner(u, known, d, m)
	}
	return r
}

// lineKey is what a line of a GPU-hour is told by.
type lineKey struct {
	owner, leaf, profile string
	slices               uint16
}

// addOwner adds up what one owner has under one name of a leaf: an instance
// made anew under the same name is the same line, and so is an owner of whom
// more became known.
func (r *UsageRow) addOwner(u meter.OwnerUse, known map[lineKey]int, d *dictionary, m *tenants.Mapping) {
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
		r.Leaf, r.Profile, r.ProfileSlices = append(r.Leaf, leaf.Leaf), append(r.Profile, leaf.Profile), append(r.ProfileSlices, key.slices)
		r.Owner, r.Tenant, r.Project = append(r.Owner, u.Owner), append(r.Tenant, tenant), append(r.Project, project)
		r.User, r.Workload = append(r.User, owner.user()), append(r.Workload, owner.facts.Workload())
		r.Active, r.Idle, r.Unproven = append(r.Active, 0), append(r.Idle, 0), append(r.Unproven, 0)
		r.Inferred, r.Work, r.EnergyMJ = append(r.Inferred, 0), append(r.Work, 0), append(r.EnergyMJ, 0)
	}
	r.Active[i] += uint64(u.Active)
	r.Idle[i] += uint64(u.Idle)
	r.Unproven[i] += uint64(u.Unproven)
	r.Inferred[i] += uint64(u.Inferred)
	r.Work[i] += uint64(u.Work)
	r.EnergyMJ[i] += u.EnergyMJ
}

// add takes a row of an hour that has so many.
func (c *usageColumns) add(cluster string, h hourState, rows int, r *UsageRow) {
	c.hourRows.Append(uint32(rows))
	c.cluster.Append(cluster)
	c.hour.Append(r.Hour)
	c.gpu.Append(r.GPU)
	c.node.Append(r.Node)
	c.model.Append(r.Model)
	c.slices.Append(r.Slices)
	c.gpuSlices.Append(r.GPUSlices)
	c.unknown.Append(r.Unknown)
	c.present.Append(r.PresentMS)
	c.until.Append(h.untilMS)
	c.epoch.Append(h.epoch)
	c.inputs.Append(h.inputs)
	c.version.Append(h.version())
	c.free.Append(r.Free)
	c.stranded.Append(r.Stranded)
	c.unhealthy.Append(r.Unhealthy)
	c.unobserved.Append(r.Unobserved)
	c.attribution.Append(r.UnobservedAttribution)
	c.platformEnergy.Append(r.PlatformEnergyMJ)
	c.unattributed.Append(r.UnattributedMJ)
	c.leaf.Append(r.Leaf)
	c.profile.Append(r.Profile)
	c.profileSlices.Append(r.ProfileSlices)
	c.owner.Append(r.Owner)
	c.tenant.Append(r.Tenant)
	c.project.Append(r.Project)
	c.user.Append(r.User)
	c.workload.Append(r.Workload)
	c.active.Append(r.Active)
	c.idle.Append(r.Idle)
	c.unproven.Append(r.Unproven)
	c.inferred.Append(r.Inferred)
	c.work.Append(r.Work)
	c.energy.Append(r.EnergyMJ)
}

func (c *usageColumns) input() proto.Input {
	return proto.Input{
		{Name: "cluster", Data: c.cluster},
		{Name: "hour", Data: &c.hour},
		{Name: "gpu", Data: c.gpu},
		{Name: "node", Data: c.node},
		{Name: "model", Data: c.model},
		{Name: "slices", Data: &c.slices},
		{Name: "gpu_slices", Data: &c.gpuSlices},
		{Name: "unknown_capacity", Data: &c.unknown},
		{Name: "present_ms", Data: &c.present},
		{Name: "until_ms", Data: &c.until},
		{Name: "epoch", Data: &c.epoch},
		{Name: "hour_rows", Data: &c.hourRows},
		{Name: "inputs", Data: &c.inputs},
		{Name: "version", Data: &c.version},
		{Name: "free", Data: &c.free},
		{Name: "stranded", Data: &c.stranded},
		{Name: "unhealthy", Data: &c.unhealthy},
		{Name: "unobserved", Data: &c.unobserved},
		{Name: "unobserved_attribution", Data: &c.attribution},
		{Name: "platform_energy_mj", Data: &c.platformEnergy},
		{Name: "unattributed_mj", Data: &c.unattributed},
		{Name: "leaf", Data: c.leaf},
		{Name: "profile", Data: c.profile},
		{Name: "profile_slices", Data: c.profileSlices},
		{Name: "owner", Data: c.owner},
		{Name: "tenant", Data: c.tenant},
		{Name: "project", Data: c.project},
		{Name: "user", Data: c.user},
		{Name: "workload", Data: c.workload},
		{Name: "active", Data: c.active},
		{Name: "idle", Data: c.idle},
		{Name: "unproven", Data: c.unproven},
		{Name: "inferred", Data: c.inferred},
		{Name: "work", Data: c.work},
		{Name: "energy_mj", Data: c.energy},
	}
}

// sightingColumns builds a block of sightings.
type sightingColumns struct {
	cluster, gpu, node, model *proto.ColLowCardinality[string]
	hour                      proto.ColDateTime
	first, last, run          proto.ColInt64
	slicesFirst, slicesLast   proto.ColUInt32
	kindFirst, kindLast       proto.ColUInt8
	version                   proto.ColUInt64
}

func newSightingColumns() *sightingColumns {
	return &sightingColumns{cluster: low(), gpu: low(), node: low(), model: low()}
}

func (c *sightingColumns) add(cluster string, h hourState, s *meter.Sighting) {
	c.cluster.Append(cluster)
	c.hour.Append(h.start)
	c.gpu.Append(s.GPU)
	c.node.Append(s.Node)
	c.model.Append(s.Model)
	c.first.Append(s.FirstMS)
	c.last.Append(s.LastMS)
	c.run.Append(s.RunFromMS)
	c.slicesFirst.Append(uint32(s.SlicesFirst))
	c.slicesLast.Append(uint32(s.SlicesLast))
	c.kindFirst.Append(uint8(s.KindFirst))
	c.kindLast.Append(uint8(s.KindLast))
	c.version.Append(h.version())
}

func (c *sightingColumns) input() proto.Input {
	return proto.Input{
		{Name: "cluster", Data: c.cluster},
		{Name: "hour", Data: &c.hour},
		{Name: "gpu", Data: c.gpu},
		{Name: "node", Data: c.node},
		{Name: "model", Data: c.model},
		{Name: "first_ms", Data: &c.first},
		{Name: "last_ms", Data: &c.last},
		{Name: "run_from_ms", Data: &c.run},
		{Name: "slices_first", Data: &c.slicesFirst},
		{Name: "slices_last", Data: &c.slicesLast},
		{Name: "kind_first", Data: &c.kindFirst},
		{Name: "kind_last", Data: &c.kindLast},
		{Name: "version", Data: &c.version},
	}
}
