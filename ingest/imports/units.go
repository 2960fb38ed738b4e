package imports

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"strings"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

// unit is an inventory entry that records allocate from: a pool, or a named GPU.
type unit struct {
	node, uuid, model string
	board             bool
	capacity          uint32 // milli-GPUs; 0: unknown
	plain             bool   // the capacity was given without a model
	always            bool   // it exists before its first record, too
	firstMS           int64  // of its first record
	uses              []use  // ascending by start
}

// use is the use of a part of a unit by one record.
type use struct {
	interval
	id    string
	milli uint32
	owner *wire.Owner
	of    int // index of its record in Plan.current
}

func (u *unit) kind() meter.Kind {
	switch {
	case u.board:
		return meter.Board
	case u.capacity == 0:
		return meter.OpenPool
	default:
		return meter.Pool
	}
}

// place assigns each record to units: the GPUs it names, otherwise the pool of its
// node, otherwise the cluster's pool; if the records have models, a pool per model.
func (p *Plan) place() error {
	byName := map[string]*unit{}
	pooled := false
	for i := range p.current {
		r := &p.current[i]
		node := cmp.Or(r.Node, p.o.Pool)
		pooled = pooled || r.Node != "" || len(r.Devices) > 0
		names := r.Devices
		if len(names) == 0 {
			names = []string{p.poolName(node, r.Model)}
		}
		for _, name := range names {
			u := byName[node+"\x00"+name]
			if u == nil {
				u = &unit{
					node: node, uuid: name, board: len(r.Devices) > 0, firstMS: r.StartMS,
					always: r.Node == "" && len(r.Devices) == 0,
				}
				if err := p.size(u, r.Model); err != nil {
					return err
				}
				byName[node+"\x00"+name] = u
				p.units = append(p.units, u)
			}
			u.model = cmp.Or(r.Model, u.model, p.o.Model)
			u.firstMS = min(u.firstMS, r.StartMS)
			milli := r.MilliGPUs
			if u.board {
				milli = meter.PoolGPUSlices
			}
			u.uses = append(u.uses, use{interval: r.interval(), id: leafID(r), milli: milli, owner: r.owner(), of: i})
		}
	}
	if !pooled {
		p.idlePools(byName)
	}
	slices.SortFunc(p.units, func(x, y *unit) int {
		return cmp.Or(cmp.Compare(x.node, y.node), cmp.Compare(x.uuid, y.uuid))
	})
	p.Units = len(p.units)
	for _, u := range p.units {
		if u.kind() == meter.OpenPool {
			p.Open++
		}
	}
	return p.oneNodePerBoard()
}

func (p *Plan) poolName(node, model string) string {
	name := p.o.Cluster + "/" + node
	if model != "" {
		name += "/" + model
	}
	return name
}

// size sets the given capacity of a pool.
func (p *Plan) size(u *unit, model string) error {
	if u.board {
		return nil
	}
	if milli, ok := p.o.Capacity[model]; ok {
		u.capacity = milli
		return nil
	}
	milli, ok := p.o.Capacity[""]
	if !ok {
		return nil
	}
	for _, other := range p.units {
		if other.node == u.node && other.plain {
			return fmt.Errorf("capacity %s: pool %s has several models: give the number of GPUs of each, such as %s=8",
				gpuText(milli), u.node, cmp.Or(model, other.model))
		}
	}
	u.capacity, u.plain = milli, true
	return nil
}

// idlePools returns the pools with a capacity and no records.
func (p *Plan) idlePools(byName map[string]*unit) {
	for model, milli := range p.o.Capacity {
		if model == "" && len(p.units) > 0 {
			continue
		}
		name := p.poolName(p.o.Pool, model)
		if byName[p.o.Pool+"\x00"+name] == nil {
			p.units = append(p.units,
				&unit{node: p.o.Pool, uuid: name, model: cmp.Or(model, p.o.Model), capacity: milli, always: true})
		}
	}
}

// oneNodePerBoard returns an error if a source has a GPU on two nodes: records don't
// show which node had it when.
func (p *Plan) oneNodePerBoard() error {
	node := map[string]string{}
	for _, u := range p.units {
		if !u.board {
			continue
		}
		if other, ok := node[u.uuid]; ok {
			return fmt.Errorf("device %q is on node %q in one record and on node %q in another; import them under different "+
				"sources", u.uuid, other, u.node)
		}
		node[u.uuid] = u.node
	}
	return nil
}

// leafID names an allocation. It is the same in all hours, and depends on no other
// record.
func leafID(r *Record) string {
	id := r.label() + "@" + strings.TrimSuffix(rfc3339(r.StartMS), "Z")
	if r.Part > 0 {
		id += fmt.Sprintf("#%d", r.Part)
	}
	return wire.Name(id)
}

// admit assigns capacity in order of start, then job. A record that doesn't fit is
// refused completely, and takes no capacity from others.
func (p *Plan) admit() {
	refused := map[int]string{}
	byRecord := map[int][]*unit{}
	for _, u := range p.units {
		for _, x := range u.uses {
			byRecord[x.of] = append(byRecord[x.of], u)
		}
	}
	open := map[*unit]*busy{}
	for i := range p.current { // in order of admission
		r := &p.current[i]
		milli := r.MilliGPUs
		if len(r.Devices) > 0 {
			milli = meter.PoolGPUSlices
		}
		for _, u := range byRecord[i] {
			if open[u] == nil {
				open[u] = &busy{}
			}
			if free, full := open[u].lacks(u, r.StartMS, milli); full {
				refused[i] = fmt.Sprintf("%s holds %s from %s on, but %s of %s has only %s free then",
					r.label(), gpuCount(milli), rfc3339(r.StartMS), u.uuid, gpuText(u.room()), gpuText(free))
			}
		}
		if refused[i] != "" {
			continue
		}
		for _, u := range byRecord[i] {
			open[u].take(r.EndMS, milli)
		}
	}
	p.refuse(refused)
}

func (p *Plan) refuse(refused map[int]string) {
	for i := range p.current {
		if why := refused[i]; why != "" {
			if p.current[i].Line == 0 {
				why = "a record of an earlier import: " + why
			}
			p.Bad = append(p.Bad, BadLine{Line: p.current[i].Line, Reason: "beyond capacity: " + why})
		}
	}
	for _, u := range p.units {
		u.uses = slices.DeleteFunc(u.uses, func(x use) bool { return refused[x.of] != "" })
		slices.SortFunc(u.uses, func(a, b use) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.id, b.id)) })
	}
	slices.SortStableFunc(p.Bad, func(a, b BadLine) int { return cmp.Compare(a.Line, b.Line) })
}

// room is the unit's capacity in milli-GPUs; 0: unlimited.
func (u *unit) room() uint32 {
	if u.board {
		return meter.PoolGPUSlices
	}
	return u.capacity
}

func gpuText(milli uint32) string {
	text := fmt.Sprintf("%d.%03d", milli/1000, milli%1000)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// gpuCount is a number of GPUs with its noun: "1 GPU", "0.5 GPUs".
func gpuCount(milli uint32) string {
	if milli == 1000 {
		return "1 GPU"
	}
	return gpuText(milli) + " GPUs"
}

// busy is the part of a unit in use at present.
type busy struct {
	ends endings
	used uint64
}

type ending struct {
	atMS  int64
	milli uint32
}

type endings []ending

func (e endings) Len() int           { return len(e) }
func (e endings) Less(i, j int) bool { return e[i].atMS < e[j].atMS }
func (e endings) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(x any)        { *e = append(*e, x.(ending)) }
func (e *endings) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// lacks reports whether a unit has too little capacity from now on, and how much is
// free.
func (b *busy) lacks(u *unit, nowMS int64, milli uint32) (free uint32, full bool) {
	for len(b.ends) > 0 && b.ends[0].atMS <= nowMS {
		b.used -= uint64(heap.Pop(&b.ends).(ending).milli)
	}
	room := uint64(u.room())
	if room == 0 {
		room = maxGPUs * 1000
	}
	return uint32(room - min(b.used, room)), b.used+uint64(milli) > room
}

func (b *busy) take(endMS int64, milli uint32) {
	heap.Push(&b.ends, ending{endMS, milli})
	b.used += uint64(milli)
}
