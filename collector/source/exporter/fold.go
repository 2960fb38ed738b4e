package exporter

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/internal/wire"
)

// readings are values by DCGM field id.
type readings map[uint32]float64

// put stores the greatest of a field's values: rows with one key are repetitions.
func (r readings) put(id uint32, v float64) {
	if old, ok := r[id]; !ok || v > old {
		r[id] = v
	}
}

func (r readings) has(id uint32) bool { _, ok := r[id]; return ok }

func (r readings) ptr(id uint32) *float64 {
	if v, ok := r[id]; ok {
		return &v
	}
	return nil
}

// device is a GPU, or one MIG instance of it.
type device struct {
	values readings
	owners map[string]*wire.Owner // by ownerKey
}

func newDevice() *device {
	return &device{values: readings{}, owners: map[string]*wire.Owner{}}
}

// addOwner keeps one owner per hold: of several containers of a pod, the first by name.
func (d *device) addOwner(o *wire.Owner, vgpu string) {
	if o == nil {
		return
	}
	key := ownerKey(o, vgpu)
	if old, ok := d.owners[key]; !ok || o.Container < old.Container {
		d.owners[key] = o
	}
}

// holders returns the owners in a fixed order.
func (d *device) holders() []*wire.Owner {
	out := make([]*wire.Owner, 0, len(d.owners))
	for _, key := range slices.Sorted(maps.Keys(d.owners)) {
		out = append(out, d.owners[key])
	}
	return out
}

// instance is a MIG GPU instance.
type instance struct {
	device
	id      uint32 // NVML's GPU-instance id
	profile string
}

// board is one GPU with the data of all its rows, folded.
type board struct {
	device
	uuid      string
	index     uint32
	model     string
	migOn     bool // reported by a row
	migOff    bool // reported by a row
	instances map[uint32]*instance
	trouble   error     // why the GPU's data is contradictory
	target    *target   // the first that lists it
	at        time.Time // time of that sample
	energyOf  *target   // the first that has its energy counter
	energyAt  time.Time // time of that sample
}

// nodeView is one node with its GPUs by UUID.
type nodeView struct {
	name    string
	boards  map[string]*board
	targets map[*target]bool
}

// sorted lists the GPUs by index, then UUID.
func (n *nodeView) sorted() []*board {
	return slices.SortedFunc(maps.Values(n.boards), func(a, b *board) int {
		return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.uuid, b.uuid))
	})
}

// fold groups the samples of one target by node and GPU, and returns the number of samples of GPUs.
func (s *Source) fold(r *reading, nodes map[string]*nodeView) (rows int) {
	owners := newOwnerReader(&s.cfg, r)
	names := nodeNames(r.samples)
	for _, smp := range r.samples {
		r.generation.See(smp.Series, smp.Value, smp.Labels)
	}
	for _, smp := range r.samples {
		if hasAny(smp.Labels, otherDevices) {
			continue
		}
		uuid, index := first(smp.Labels, labelsUUID), first(smp.Labels, labelsIndex)
		node, named := r.target.node, first(smp.Labels, labelsNode)
		if r.target.trusts {
			node = cmp.Or(named, names[uuid], node)
		} else if named != "" && named != node {
			s.noteOtherNode(r.target)
		}
		if uuid == "" && index != "" {
			uuid = s.deps.Cluster + "/" + node + "/" + index
		}
		if uuid == "" {
			s.metrics.absent.WithLabelValues(absentNoGPU).Inc()
			continue
		}
		rows++
		s.foldRow(boardOf(nodes, node, uuid, r, smp), r, smp, index, owners)
	}
	return rows
}

// boardOf returns a GPU, and adds it if it is new.
func boardOf(nodes map[string]*nodeView, node, uuid string, r *reading, smp Sample) *board {
	n := nodes[node]
	if n == nil {
		n = &nodeView{name: node, boards: map[string]*board{}, targets: map[*target]bool{}}
		nodes[node] = n
	}
	n.targets[r.target] = true
	b := n.boards[uuid]
	if b == nil {
		b = &board{device: *newDevice(), uuid: uuid, instances: map[uint32]*instance{}, target: r.target, at: r.time(smp)}
		n.boards[uuid] = b
	}
	return b
}

// countsEnergyBy accepts a GPU's energy counter from one target only: the maximum of two different counters would be
// neither.
func (b *board) countsEnergyBy(t *target, at time.Time) bool {
	if b.energyOf == nil {
		b.energyOf, b.energyAt = t, at
	}
	return b.energyOf == t
}

// time is when a sample was scraped.
func (r *reading) time(smp Sample) time.Time {
	if smp.At.IsZero() {
		return r.at
	}
	return smp.At
}

// nodeNames returns the node of a UUID for rows without a node.
func nodeNames(samples []Sample) map[string]string {
	names := make(map[string]string)
	for _, smp := range samples {
		if node := first(smp.Labels, labelsNode); node != "" {
			names[first(smp.Labels, labelsUUID)] = node
		}
	}
	delete(names, "")
	return names
}

func (s *Source) foldRow(b *board, r *reading, smp Sample, index string, owners ownerReader) {
	if n, err := strconv.ParseUint(index, 10, 32); err == nil {
		b.index = uint32(n)
	}
	b.model = cmp.Or(b.model, strings.TrimSpace(first(smp.Labels, labelsModel)))
	if on, known := trueLabel(first(smp.Labels, labelsMIGMode)); known {
		b.migOn, b.migOff = b.migOn || on, b.migOff || !on
	}
	d, isInstance := s.deviceOf(b, smp.Labels)
	if d == nil {
		return
	}
	owner, vgpu := owners.owner(smp.Labels)
	d.addOwner(owner, vgpu)
	f := smp.Series.Field()
	id, v, absent := r.generation.Value(smp.Series, smp.Value)
	if r.distrusted[smp.Series.Name] {
		absent = field.AbsentHelp
	}
	switch {
	case absent != "":
		s.leaveOut(r.target, smp.Series.Name, absent)
	case isInstance && f.Instance:
		d.values.put(id, v)
	case isInstance && f.ID == field.GPUUtil:
		s.metrics.absent.WithLabelValues(absentMIGUtil).Inc()
	case f.ID == field.EnergyMJ && !b.countsEnergyBy(r.target, r.time(smp)):
	default:
		b.values.put(id, v)
	}
}

// deviceOf returns a row's instance, else the GPU; nil if the row's instance is unknown.
func (s *Source) deviceOf(b *board, labels map[string]string) (d *device, isInstance bool) {
	gi, profile := first(labels, labelsGI), first(labels, labelsProfile)
	if gi == "" {
		return &b.device, false
	}
	id, err := strconv.ParseUint(gi, 10, 32)
	if err != nil {
		b.trouble = fmt.Errorf("GPU_I_ID %.80q is not a number", gi)
		return nil, false
	}
	inst := b.instances[uint32(id)]
	if inst == nil {
		inst = &instance{device: *newDevice(), id: uint32(id), profile: profile}
		b.instances[uint32(id)] = inst
	}
	if profile != "" && inst.profile != "" && profile != inst.profile {
		b.trouble = fmt.Errorf("GPU_I_ID %s has the profiles %.80q and %.80q", gi, inst.profile, profile)
	}
	inst.profile = cmp.Or(inst.profile, profile)
	return &inst.device, true
}
