package ingest

import (
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

func lowCardinality() *proto.ColLowCardinality[string] { return new(proto.ColStr).LowCardinality() }

func slotTime(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// holdsColumns builds a block of table holds.
type holdsColumns struct {
	cluster, node, gpu, model         *proto.ColLowCardinality[string]
	slot                              proto.ColDateTime
	slotMS, slices, head, tail        proto.ColUInt32
	batch, leaf, owner, sliceMS, work proto.ColUInt64
	rules                             proto.ColUInt16
	bucket                            proto.ColEnum8
	kind, why, energyWhy              proto.ColUInt8
	energy, unattributed              proto.ColInt64
}

func newHoldsColumns() *holdsColumns {
	return &holdsColumns{cluster: lowCardinality(), node: lowCardinality(), gpu: lowCardinality(), model: lowCardinality()}
}

func (c *holdsColumns) add(b *wire.Batch, id uint64, g *meter.GPUSlot) {
	for i := range g.Rows {
		r := &g.Rows[i]
		c.cluster.Append(b.Cluster)
		c.node.Append(b.Node)
		c.gpu.Append(g.UUID)
		c.slot.Append(slotTime(b.SlotStartMs))
		c.slotMS.Append(uint32(b.SlotMs))
		c.batch.Append(id)
		c.model.Append(g.Model)
		c.slices.Append(uint32(g.Slices))
		c.kind.Append(uint8(g.Kind))
		c.leaf.Append(r.Leaf)
		c.owner.Append(r.Owner)
		c.bucket.Append(proto.Enum8(r.Bucket))
		c.why.Append(uint8(r.Why))
		c.sliceMS.Append(uint64(r.SliceMS))
		c.work.Append(uint64(r.Work))
		c.energy.Append(r.EnergyMJ)
		c.unattributed.Append(r.UnattributedMJ)
		c.energyWhy.Append(uint8(r.EnergyWhy))
		c.head.Append(uint32(r.Head))
		c.tail.Append(uint32(r.Tail))
		c.rules.Append(meter.RulesVersion)
	}
}

func (c *holdsColumns) input() proto.Input {
	return proto.Input{
		{Name: "cluster", Data: c.cluster},
		{Name: "node", Data: c.node},
		{Name: "gpu", Data: c.gpu},
		{Name: "slot", Data: &c.slot},
		{Name: "slot_ms", Data: &c.slotMS},
		{Name: "batch", Data: &c.batch},
		{Name: "model", Data: c.model},
		{Name: "slices", Data: &c.slices},
		{Name: "kind", Data: &c.kind},
		{Name: "leaf", Data: &c.leaf},
		{Name: "owner", Data: &c.owner},
		{Name: "bucket", Data: proto.Wrap(&c.bucket, `'active'=1`, `'idle'=2`, `'unproven'=3`, `'free'=4`, `'stranded'=5`, `'unhealthy'=6`, `'unobserved'=7`, `'pending'=8`)},
		{Name: "why", Data: &c.why},
		{Name: "slice_ms", Data: &c.sliceMS},
		{Name: "work", Data: &c.work},
		{Name: "energy_mj", Data: &c.energy},
		{Name: "unattributed_mj", Data: &c.unattributed},
		{Name: "energy_why", Data: &c.energyWhy},
		{Name: "head", Data: &c.head},
		{Name: "tail", Data: &c.tail},
		{Name: "rules", Data: &c.rules},
	}
}

// eventsColumns builds a block of table events.
type eventsColumns struct {
	cluster, node, gpu, leaf, kind *proto.ColLowCardinality[string]
	at                             *proto.ColDateTime64
	code                           proto.ColInt64
	detail                         proto.ColStr
	batch                          proto.ColUInt64
}

func newEventsColumns() *eventsColumns {
	return &eventsColumns{
		cluster: lowCardinality(), node: lowCardinality(), gpu: lowCardinality(), leaf: lowCardinality(), kind: lowCardinality(),
		at: new(proto.ColDateTime64).WithPrecision(proto.PrecisionMilli),
	}
}

func (c *eventsColumns) add(b *wire.Batch, id uint64) {
	for _, e := range b.Events {
		c.cluster.Append(b.Cluster)
		c.node.Append(b.Node)
		c.gpu.Append(e.Gpu)
		c.leaf.Append(e.Leaf)
		c.at.Append(slotTime(b.SlotStartMs + e.AtMs))
		c.kind.Append(e.Kind)
		c.code.Append(e.Code)
		c.detail.Append(e.Detail)
		c.batch.Append(id)
	}
}

func (c *eventsColumns) input() proto.Input {
	return proto.Input{
		{Name: "cluster", Data: c.cluster},
		{Name: "node", Data: c.node},
		{Name: "gpu", Data: c.gpu},
		{Name: "leaf", Data: c.leaf},
		{Name: "at", Data: c.at},
		{Name: "kind", Data: c.kind},
		{Name: "code", Data: &c.code},
		{Name: "detail", Data: &c.detail},
		{Name: "batch", Data: &c.batch},
	}
}

// dictionary builds blocks of tables leaves and owners with what wasn't
// written before.
type dictionary struct {
	known map[uint64]bool
}

func (d *dictionary) leaves(all []*meter.Identities) (proto.Input, []uint64) {
	var (
		id, slices    = new(proto.ColUInt64), new(proto.ColUInt32)
		leaf, migUUID = new(proto.ColStr), new(proto.ColStr)
		profile       = lowCardinality()
		gi, ci        = new(proto.ColInt32), new(proto.ColInt32)
		added         []uint64
	)
	for _, ids := range all {
		ids.Leaves(func(l meter.Leaf, h uint64) {
			if d.known[h] {
				return
			}
			added = append(added, h)
			id.Append(h)
			leaf.Append(l.ID)
			slices.Append(uint32(l.Slices))
			profile.Append(l.Profile)
			gi.Append(l.GI)
			ci.Append(l.CI)
			migUUID.Append(l.MIGUUID)
		})
	}
	return proto.Input{
		{Name: "id", Data: id},
		{Name: "leaf", Data: leaf},
		{Name: "slices", Data: slices},
		{Name: "profile", Data: profile},
		{Name: "gi", Data: gi},
		{Name: "ci", Data: ci},
		{Name: "mig_uuid", Data: migUUID},
	}, added
}

func (d *dictionary) owners(all []*meter.Identities) (proto.Input, []uint64) {
	id := new(proto.ColUInt64)
	names := []string{"owner", "tenant", "project", "namespace", "pod", "uid", "job", "user", "account"}
	cols := make([]proto.ColStr, len(names))
	var added []uint64
	for _, ids := range all {
		ids.Owners(func(o meter.Owner, h uint64) {
			if d.known[h] {
				return
			}
			added = append(added, h)
			id.Append(h)
			for i, v := range []string{o.ID(), o.Tenant, o.Project, o.Namespace, o.Pod, o.UID, o.Job, o.User, o.Account} {
				cols[i].Append(v)
			}
		})
	}
	in := proto.Input{{Name: "id", Data: id}}
	for i, name := range names {
		in = append(in, proto.InputColumn{Name: name, Data: &cols[i]})
	}
	return in, added
}

func (d *dictionary) wrote(ids []uint64) {
	for _, id := range ids {
		d.known[id] = true
	}
}
