package ingest

import (
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/wire"
)

// addHolds adds the rows of one GPU of a batch to a block of table holds.
func addHolds(block *tables.Block[tables.Hold], b *wire.Batch, id uint64, g *meter.GPUSlot) {
	row := tables.Hold{
		Cluster: b.Cluster, Node: b.Node, GPU: g.UUID, Slot: slotTime(b.SlotStartMs), SlotMS: uint32(b.SlotMs), Batch: id,
		Model: g.Model, Slices: uint32(g.Slices), Kind: uint8(g.Kind), Rules: meter.RulesVersion,
	}
	for i := range g.Rows {
		r := &g.Rows[i]
		row.Leaf, row.Owner, row.Bucket, row.Why = r.Leaf, r.Owner, int8(r.Bucket), uint8(r.Why)
		row.SliceMS, row.Work, row.EnergyMJ, row.UnattributedMJ = uint64(r.SliceMS), uint64(
			r.Work), r.EnergyMJ, r.UnattributedMJ
		row.EnergyWhy, row.Head, row.Tail = uint8(r.EnergyWhy), uint32(r.Head), uint32(r.Tail)
		block.Add(&row)
	}
}

func addEvents(block *tables.Block[tables.Event], b *wire.Batch, id uint64) {
	for _, e := range b.Events {
		block.Add(&tables.Event{
			Cluster: b.Cluster, Node: b.Node, GPU: e.Gpu, Leaf: e.Leaf, At: slotTime(b.SlotStartMs + e.AtMs), Kind: e.Kind,
			Code: e.Code, Detail: e.Detail, Batch: id,
		})
	}
}

// dictionary remembers which leaves, or owners, were written already.
type dictionary struct {
	known map[uint64]bool
}

// newLeaves returns the leaves that were not written yet, and their ids.
func (d *dictionary) newLeaves(all []*meter.Identities) (*tables.Block[tables.Leaf], []uint64) {
	block, added := tables.NewBlock[tables.Leaf](), []uint64(nil)
	for _, ids := range all {
		ids.Leaves(func(l meter.Leaf, h uint64) {
			if !d.known[h] {
				added = append(added, h)
				block.Add(&tables.Leaf{
					ID: h, Leaf: l.ID, Slices: uint32(l.Slices), Profile: l.Profile, GI: l.GI, CI: l.CI, MIGUUID: l.MIGUUID,
				})
			}
		})
	}
	return block, added
}

func (d *dictionary) newOwners(all []*meter.Identities) (*tables.Block[tables.Owner], []uint64) {
	block, added := tables.NewBlock[tables.Owner](), []uint64(nil)
	for _, ids := range all {
		ids.Owners(func(o meter.Owner, h uint64) {
			if !d.known[h] {
				added = append(added, h)
				block.Add(&tables.Owner{
					ID: h, Owner: o.ID(), Tenant: o.Tenant, Project: o.Project, Namespace: o.Namespace, Pod: o.Pod, UID: o.UID,
					Job: o.Job, User: o.User, Account: o.Account,
				})
			}
		})
	}
	return block, added
}

func (d *dictionary) wrote(ids []uint64) {
	for _, id := range ids {
		d.known[id] = true
	}
}
