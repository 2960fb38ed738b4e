// Package usagetest puts ledger rows into a test's database by hand. Data in:
// GPU-hours with their owners. Data out: rows of usage_hourly. Time that
// nobody is given in a GPU-hour is free, so that the row conserves capacity.
package usagetest

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"
)

// GPUHour is one row of the ledger; free time is what is left.
type GPUHour struct {
	Hour    time.Time
	GPU     string
	Node    string
	Model   string
	Slices  uint32
	Version uint64
	// GPUSlices are one GPU's: 1000 in a pool; 0 is all of Slices.
	GPUSlices uint16
	// Epoch of rules and mapping, and Inputs, say why usage changed.
	Epoch  uint32
	Inputs uint64
	// PresentMS is the part of the hour in the inventory; 0 is all of it.
	PresentMS        uint32
	Stranded         uint64
	Unhealthy        uint64
	Unobserved       uint64
	PlatformEnergyMJ int64
	UnattributedMJ   int64
	Owners           []Owner
}

// Owner is one owner on one leaf; times are slice-milliseconds.
type Owner struct {
	Leaf          string
	Profile       string
	ProfileSlices uint16
	Tenant        string
	Project       string
	User          string
	Workload      string
	Active        uint64
	Idle          uint64
	Unproven      uint64
	EnergyMJ      int64
}

// Inserter is the part of store.DB that is needed.
type Inserter interface {
	Insert(ctx context.Context, table string, in proto.Input) error
}

// Insert writes the rows; a row with more time than the GPU had fails the test.
func Insert(t testing.TB, db Inserter, hours ...GPUHour) {
	t.Helper()
	c := newColumns()
	for _, h := range hours {
		if h.PresentMS == 0 {
			h.PresentMS = 3_600_000
		}
		free := int64(h.Slices) * int64(h.PresentMS)
		for _, used := range []uint64{h.Stranded, h.Unhealthy, h.Unobserved} {
			free -= int64(used)
		}
		for _, o := range h.Owners {
			free -= int64(o.Active + o.Idle + o.Unproven)
		}
		if free < 0 {
			t.Fatalf("GPU %s at %s: %d slice-ms more than there are", h.GPU, h.Hour, -free)
		}
		c.add(h, uint64(free))
	}
	if err := db.Insert(t.Context(), "usage_hourly", c.input()); err != nil {
		t.Fatalf("insert usage: %v", err)
	}
}

type columns struct {
	cluster, gpu, node, model                              proto.ColStr
	hour                                                   proto.ColDateTime
	gpuSlices                                              proto.ColUInt16
	slices, present, until, epoch                          proto.ColUInt32
	inputs, version, free, stranded, unhealthy, unobserved proto.ColUInt64
	platform, unattributed                                 proto.ColInt64
	leaf, profile, tenant, project, user, workload         *proto.ColArr[string]
	profileSlices, active, idle, unproven, inferred, work  *proto.ColArr[uint64]
	owner                                                  *proto.ColArr[uint64]
	energy                                                 *proto.ColArr[int64]
}

func newColumns() *columns {
	text := func() *proto.ColArr[string] { return proto.NewArray[string](new(proto.ColStr)) }
	number := func() *proto.ColArr[uint64] { return proto.NewArray[uint64](new(proto.ColUInt64)) }
	return &columns{
		leaf: text(), profile: text(), tenant: text(), project: text(), user: text(), workload: text(),
		profileSlices: number(), active: number(), idle: number(), unproven: number(), inferred: number(),
		work: number(), owner: number(), energy: proto.NewArray[int64](new(proto.ColInt64)),
	}
}

func (c *columns) add(h GPUHour, free uint64) {
	c.cluster.Append("test")
	c.gpu.Append(h.GPU)
	c.node.Append(h.Node)
	c.model.Append(h.Model)
	c.hour.Append(h.Hour)
	c.slices.Append(h.Slices)
	c.gpuSlices.Append(cmp.Or(h.GPUSlices, uint16(h.Slices)))
	c.present.Append(h.PresentMS)
	c.until.Append(h.PresentMS)
	c.version.Append(h.Version)
	c.epoch.Append(h.Epoch)
	c.inputs.Append(h.Inputs)
	c.free.Append(free)
	c.stranded.Append(h.Stranded)
	c.unhealthy.Append(h.Unhealthy)
	c.unobserved.Append(h.Unobserved)
	c.platform.Append(h.PlatformEnergyMJ)
	c.unattributed.Append(h.UnattributedMJ)
	c.addOwners(h.Owners)
}

func (c *columns) addOwners(owners []Owner) {
	texts := func(to *proto.ColArr[string], of func(Owner) string) {
		values := make([]string, len(owners))
		for i, o := range owners {
			values[i] = of(o)
		}
		to.Append(values)
	}
	numbers := func(to *proto.ColArr[uint64], of func(Owner) uint64) {
		values := make([]uint64, len(owners))
		for i, o := range owners {
			values[i] = of(o)
		}
		to.Append(values)
	}
	texts(c.leaf, func(o Owner) string { return o.Leaf })
	texts(c.profile, func(o Owner) string { return o.Profile })
	texts(c.tenant, func(o Owner) string { return o.Tenant })
	texts(c.project, func(o Owner) string { return o.Project })
	texts(c.user, func(o Owner) string { return o.User })
	texts(c.workload, func(o Owner) string { return o.Workload })
	numbers(c.profileSlices, func(o Owner) uint64 { return uint64(o.ProfileSlices) })
	numbers(c.active, func(o Owner) uint64 { return o.Active })
	numbers(c.idle, func(o Owner) uint64 { return o.Idle })
	numbers(c.unproven, func(o Owner) uint64 { return o.Unproven })
	for _, unused := range []*proto.ColArr[uint64]{c.inferred, c.work, c.owner} {
		numbers(unused, func(Owner) uint64 { return 0 })
	}
	energy := make([]int64, len(owners))
	for i, o := range owners {
		energy[i] = o.EnergyMJ
	}
	c.energy.Append(energy)
}

func (c *columns) input() proto.Input {
	return proto.Input{
		{Name: "cluster", Data: &c.cluster},
		{Name: "hour", Data: &c.hour},
		{Name: "gpu", Data: &c.gpu},
		{Name: "node", Data: &c.node},
		{Name: "model", Data: &c.model},
		{Name: "slices", Data: &c.slices},
		{Name: "gpu_slices", Data: &c.gpuSlices},
		{Name: "present_ms", Data: &c.present},
		{Name: "until_ms", Data: &c.until},
		{Name: "version", Data: &c.version},
		{Name: "epoch", Data: &c.epoch},
		{Name: "inputs", Data: &c.inputs},
		{Name: "free", Data: &c.free},
		{Name: "stranded", Data: &c.stranded},
		{Name: "unhealthy", Data: &c.unhealthy},
		{Name: "unobserved", Data: &c.unobserved},
		{Name: "platform_energy_mj", Data: &c.platform},
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
