package ledger

import (
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/gpuledger/gpuledger/internal/meter"
)

func low() *proto.ColLowCardinality[string] { return new(proto.ColStr).LowCardinality() }

// usageColumns builds a block of usage_hourly.
type usageColumns struct {
	cluster, gpu, node, model                          *proto.ColLowCardinality[string]
	hour                                               proto.ColDateTime
	slices                                             proto.ColUInt16
	present, until, epoch                              proto.ColUInt32
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

// add appends one GPU-hour, with names for its owners as the mapping has them
// in that hour.
func (c *usageColumns) add(cluster string, h hourState, g *meter.GPUHour, d *dictionary, m *Mapping) {
	c.cluster.Append(cluster)
	c.hour.Append(h.start)
	c.gpu.Append(g.GPU)
	c.node.Append(g.Node)
	c.model.Append(g.Model)
	c.slices.Append(uint16(g.Slices))
	c.present.Append(uint32(g.PresentMS))
	c.until.Append(h.untilMS)
	c.epoch.Append(h.epoch)
	c.inputs.Append(h.inputs)
	c.version.Append(h.version())
	c.free.Append(uint64(g.Free))
	c.stranded.Append(uint64(g.Stranded))
	c.unhealthy.Append(uint64(g.Unhealthy))
	c.unobserved.Append(uint64(g.Unobserved))
	c.attribution.Append(uint64(g.UnobservedAttribution))
	c.platformEnergy.Append(g.PlatformEnergyMJ)
	c.unattributed.Append(g.UnattributedMJ)
	c.addOwners(h.start, g.Owners, d, m)
}

func (c *usageColumns) addOwners(hour time.Time, uses []meter.OwnerUse, d *dictionary, m *Mapping) {
	n := len(uses)
	names := make([][]string, 6)
	for i := range names {
		names[i] = make([]string, n)
	}
	numbers := make([][]uint64, 6)
	for i := range numbers {
		numbers[i] = make([]uint64, n)
	}
	slices, energy := make([]uint16, n), make([]int64, n)
	for i, u := range uses {
		leaf, owner := d.leaves[u.Leaf], d.owners[u.Owner]
		names[0][i], names[1][i], slices[i] = leaf.Leaf, leaf.Profile, leaf.Slices
		names[2][i], names[3][i] = m.At(hour, owner.facts)
		names[4][i], names[5][i] = owner.user(), owner.facts.Workload()
		numbers[0][i], numbers[1][i], numbers[2][i] = u.Owner, uint64(u.Active), uint64(u.Idle)
		numbers[3][i], numbers[4][i], numbers[5][i] = uint64(u.Unproven), uint64(u.Inferred), uint64(u.Work)
		energy[i] = u.EnergyMJ
	}
	for i, col := range []*proto.ColArr[string]{c.leaf, c.profile, c.tenant, c.project, c.user, c.workload} {
		col.Append(names[i])
	}
	for i, col := range []*proto.ColArr[uint64]{c.owner, c.active, c.idle, c.unproven, c.inferred, c.work} {
		col.Append(numbers[i])
	}
	c.profileSlices.Append(slices)
	c.energy.Append(energy)
}

func (c *usageColumns) input() proto.Input {
	return proto.Input{
		{Name: "cluster", Data: c.cluster}, {Name: "hour", Data: &c.hour}, {Name: "gpu", Data: c.gpu}, {Name: "node", Data: c.node},
		{Name: "model", Data: c.model}, {Name: "slices", Data: &c.slices}, {Name: "present_ms", Data: &c.present}, {Name: "until_ms", Data: &c.until},
		{Name: "epoch", Data: &c.epoch}, {Name: "inputs", Data: &c.inputs}, {Name: "version", Data: &c.version},
		{Name: "free", Data: &c.free}, {Name: "stranded", Data: &c.stranded}, {Name: "unhealthy", Data: &c.unhealthy},
		{Name: "unobserved", Data: &c.unobserved}, {Name: "unobserved_attribution", Data: &c.attribution},
		{Name: "platform_energy_mj", Data: &c.platformEnergy}, {Name: "unattributed_mj", Data: &c.unattributed},
		{Name: "leaf", Data: c.leaf}, {Name: "profile", Data: c.profile}, {Name: "profile_slices", Data: c.profileSlices},
		{Name: "owner", Data: c.owner}, {Name: "tenant", Data: c.tenant}, {Name: "project", Data: c.project}, {Name: "user", Data: c.user},
		{Name: "workload", Data: c.workload}, {Name: "active", Data: c.active}, {Name: "idle", Data: c.idle},
		{Name: "unproven", Data: c.unproven}, {Name: "inferred", Data: c.inferred}, {Name: "work", Data: c.work}, {Name: "energy_mj", Data: c.energy},
	}
}

// sightingColumns builds a block of sightings.
type sightingColumns struct {
	cluster, gpu, node, model *proto.ColLowCardinality[string]
	hour                      proto.ColDateTime
	first, last, run          proto.ColInt64
	slicesFirst, slicesLast   proto.ColUInt16
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
	c.slicesFirst.Append(uint16(s.SlicesFirst))
	c.slicesLast.Append(uint16(s.SlicesLast))
	c.version.Append(h.version())
}

func (c *sightingColumns) input() proto.Input {
	return proto.Input{
		{Name: "cluster", Data: c.cluster}, {Name: "hour", Data: &c.hour}, {Name: "gpu", Data: c.gpu}, {Name: "node", Data: c.node},
		{Name: "model", Data: c.model}, {Name: "first_ms", Data: &c.first}, {Name: "last_ms", Data: &c.last}, {Name: "run_from_ms", Data: &c.run},
		{Name: "slices_first", Data: &c.slicesFirst}, {Name: "slices_last", Data: &c.slicesLast}, {Name: "version", Data: &c.version},
	}
}
