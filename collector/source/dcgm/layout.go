package dcgm

import (
	"errors"
	"fmt"
	"slices"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gputally/gputally/collector/source/gpustate"
	"github.com/gputally/gputally/collector/source/local"
)

// layout are an inventory's GPUs, their leaves, and the entities that are read. Each reading sets the values of its
// GPUs.
type layout struct {
	inv    *inventory
	boards []local.GPU
	ids    []identity // of GPUs
	parts  []part
	index  map[uint64]int // of parts, by entity
	// leftOut is the error about parts of the inventory that are missing in GPUs.
	leftOut error
	unnamed bool        // a GPU didn't report its UUID, but may at the next listing
	batch   []batchCall // for latest values
}

// part is an entity that is read.
type part struct {
	entity entity
	board  int
	leaf   int       // of the GPU's instances; onBoard or noLeaf
	key    local.Key // of an instance
	where  gpustate.Part
	// sinceUS is when the instance was first seen at this entity id, which DCGM reuses: older values belong to
	// another instance.
	sinceUS   int64
	uuid      uint64 // hash of the first value of field 54; 0: none yet
	remade    bool   // its UUID has changed
	profiling bool   // is watched for profiling
	activity  [2]mean
}

const (
	onBoard = -1 // the GPU itself
	noLeaf  = -2 // a GPU instance whose compute instances are the leaves: for XIDs only
)

// mean of samples.
type mean struct {
	sum float64
	n   int
}

// entityKey is an entity's key in the index.
func entityKey[G ~int32 | ~uint32 | ~uint | ~uint8, I ~uint32 | ~uint | ~int](group G, id I) uint64 {
	return uint64(group)<<32 | uint64(id)
}

// arrange makes a layout of an inventory. known are GPUs identified before, by DCGM's id, while the host engine keeps
// their numbers; was is the previous layout, or nil.
func arrange(inv *inventory, known map[uint32]identity, was *layout, nowUS int64) (*layout, error) {
	l := &layout{inv: inv, index: map[uint64]int{}}
	var ids []uint32
	for _, g := range inv.gpus {
		if g.state == present {
			ids = append(ids, g.id)
		}
	}
	told, err := identify(ids)
	if err != nil {
		return nil, err
	}
	forgetRenumbered(known, told)
	var errs []error
	for _, g := range inv.gpus {
		errs = append(errs, l.addBoard(g, told, known))
	}
	if err := l.addInstances(was, nowUS); err != nil {
		return nil, err
	}
	l.leftOut = errors.Join(errs...)
	return l, nil
}

// forgetRenumbered clears known if an id denotes another GPU now: the others may do so, too.
func forgetRenumbered(known, told map[uint32]identity) {
	for id, now := range told {
		if before, ok := known[id]; ok && before.uuid != now.uuid {
			clear(known)
		}
	}
}

// addBoard adds a GPU, or returns why it can't be added.
func (l *layout) addBoard(g listed, told, known map[uint32]identity) error {
	was, wasKnown := known[g.id]
	id, ok := told[g.id]
	switch {
	case g.state == hidden && wasKnown:
		return fmt.Errorf("GPU %d (%s): DCGM may not read it any more", g.id, was.uuid)
	case g.state == hidden:
		return nil // never identified
	case g.state == lost && !wasKnown:
		return fmt.Errorf("GPU %d: lost, and never read before: its UUID is unknown", g.id)
	case g.state == lost:
		id = was
	case !ok:
		l.unnamed = true
		return fmt.Errorf("GPU %d: it doesn't tell its UUID (field %d)", g.id, fieldUUID)
	case id.mig && l.inv.blind != "":
		return fmt.Errorf("GPU %d (%s): MIG is on, and its instances can't be listed: %s", g.id, id.uuid, l.inv.blind)
	}
	if slices.ContainsFunc(l.boards, func(b local.GPU) bool { return b.UUID == id.uuid }) {
		return fmt.Errorf("GPU %d: its UUID %s is another GPU's already", g.id, id.uuid)
	}
	known[g.id] = id
	b := local.GPU{UUID: id.uuid, Model: id.name, Index: g.id, Slices: id.maxSlices, MIG: id.mig, Lost: g.state == lost}
	l.boards, l.ids = append(l.boards, b), append(l.ids, id)
	if !b.Lost {
		l.addPart(part{
			entity: newEntity(godcgm.FE_GPU, uint(g.id)), board: len(l.boards) - 1, leaf: onBoard,
			where: gpustate.Whole,
		})
	}
	return nil
}

func (l *layout) addPart(p part) {
	l.index[entityKey(p.entity.group, p.entity.id)] = len(l.parts)
	l.parts = append(l.parts, p)
}

// addInstances adds GPU instances before compute instances, whose profiles depend on theirs.
func (l *layout) addInstances(was *layout, nowUS int64) error {
	names, err := l.instanceNames()
	if err != nil {
		return err
	}
	parents := make(map[uint64]godcgm.MigHierarchyInfo_v2)
	for _, e := range l.inv.instances {
		if e.Entity.EntityGroupId == godcgm.FE_GPU_I {
			parents[entityKey(godcgm.FE_GPU_I, e.Entity.EntityId)] = e
		}
	}
	for _, e := range l.inv.instances {
		id, ok := l.inv.gpuOf(e)
		i := slices.IndexFunc(l.boards, func(b local.GPU) bool { return ok && b.Index == id && !b.Lost })
		if i < 0 {
			continue
		}
		p := part{
			entity: newEntity(e.Entity.EntityGroupId, e.Entity.EntityId), board: i, leaf: len(l.boards[i].Instances),
			where: gpustate.Instance(uint32(e.Info.NvmlInstanceId)),
		}
		key := local.Key{GI: uint32(e.Info.NvmlInstanceId), CI: -1, Slices: uint32(e.Info.NvmlProfileSlices)}
		gi := e
		if e.Entity.EntityGroupId == godcgm.FE_GPU_CI {
			p.where = gpustate.ComputeInstance(key.GI, uint32(e.Info.NvmlComputeInstanceId))
			key.CI = int64(e.Info.NvmlComputeInstanceId)
			gi = parents[entityKey(e.Parent.EntityGroupId, e.Parent.EntityId)]
		} else if l.hasCompute(e) {
			p.leaf = noLeaf
		}
		p.key = key
		l.name(&p, e, gi, names, was)
		l.addInstance(p, was, nowUS)
	}
	return nil
}

func (l *layout) hasCompute(gi godcgm.MigHierarchyInfo_v2) bool {
	return slices.ContainsFunc(l.inv.instances, func(e godcgm.MigHierarchyInfo_v2) bool { return e.Parent == gi.Entity })
}

// addInstance adds an instance. If it existed before at the same entity id, its earlier values are valid.
func (l *layout) addInstance(p part, was *layout, nowUS int64) {
	b := &l.boards[p.board]
	b.MIG = true
	p.sinceUS = nowUS
	if old := was.find(p, b.UUID); old != nil && old.key == p.key {
		p.sinceUS = old.sinceUS
	}
	if p.leaf != noLeaf {
		b.Instances = append(b.Instances, local.Instance{Key: p.key})
	}
	l.addPart(p)
}

// find returns the part of the previous layout with p's entity, if it may be the same according to DCGM's list of
// instances; nil: none.
func (l *layout) find(p part, gpu string) *part {
	if l == nil {
		return nil
	}
	i, ok := l.index[entityKey(p.entity.group, p.entity.id)]
	if !ok {
		return nil
	}
	old := &l.parts[i]
	if l.boards[old.board].UUID != gpu || old.where != p.where || old.key.Slices != p.key.Slices ||
		(old.leaf == noLeaf) != (p.leaf == noLeaf) {
		return nil
	}
	return old
}

func (l *layout) instanceNames() (called, error) {
	out := called{map[uint64]string{}, map[uint64]string{}}
	for _, kind := range []godcgm.Field_Entity_Group{godcgm.FE_GPU_I, godcgm.FE_GPU_CI} {
		var ids []uint32
		for _, e := range l.inv.instances {
			if e.Entity.EntityGroupId == kind {
				ids = append(ids, uint32(e.Entity.EntityId))
			}
		}
		if err := out.read(kind, ids); err != nil {
			return out, err
		}
	}
	return out, nil
}

// name sets an instance's MIG UUID and its profile as nvidia-smi writes it: that of the GPU instance, prefixed by the
// compute slices if a compute instance has only some of them. Names that aren't reported this time are kept.
func (l *layout) name(p *part, e, gi godcgm.MigHierarchyInfo_v2, names called, was *layout) {
	p.key.UUID = names.uuids[entityKey(e.Entity.EntityGroupId, e.Entity.EntityId)]
	p.key.Profile = names.profiles[entityKey(godcgm.FE_GPU_I, gi.Entity.EntityId)]
	old := was.find(*p, l.boards[p.board].UUID)
	if old != nil && p.key.UUID == "" {
		p.key.UUID = old.key.UUID
	}
	switch {
	case p.key.Profile == "" && old != nil:
		p.key.Profile = old.key.Profile
		return
	case p.key.Profile == "":
		p.key.Profile = fmt.Sprintf("%dg", gi.Info.NvmlProfileSlices)
	}
	if e.Info.NvmlProfileSlices < gi.Info.NvmlProfileSlices {
		p.key.Profile = fmt.Sprintf("%dc.%s", e.Info.NvmlProfileSlices, p.key.Profile)
	}
}

// entities returns the entities of the wanted parts.
func (l *layout) entities(wanted func(p *part) bool) []entity {
	var out []entity
	for i := range l.parts {
		if wanted(&l.parts[i]) {
			out = append(out, l.parts[i].entity)
		}
	}
	return out
}

func isBoard(p *part) bool { return p.leaf == onBoard }
func isLeaf(p *part) bool  { return p.leaf >= 0 }
func isAny(*part) bool     { return true }

// of returns the part of a record; nil: it no longer exists.
func (l *layout) of(r *record) *part {
	i, ok := l.index[entityKey(r.group, r.entity)]
	if !ok {
		return nil
	}
	return &l.parts[i]
}
