package meter_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/gputally/gputally/internal/wire"
)

// randomCluster makes the batches of a small cluster around a full hour, with
// everything the rules speak of. State (layouts, holders, places) changes
// seldom, so that what the gap rule compares is often equal.
type randomCluster struct {
	*rand.Rand
	slotMS int64
	nodes  []string
	gpus   []*randomGPU
	seq    uint64
	out    []*wire.Batch
}

type randomGPU struct {
	uuid, model string
	slices      uint32
	mig         bool
	pool, open  bool     // a pool, one of unknown capacity (R18)
	nodes       []string // where it is listed: one, seldom two
	leaves      []*wire.Leaf
	holds       []*wire.Hold
}

func randomBatches(seed uint64) []*wire.Batch {
	c := &randomCluster{Rand: rand.New(rand.NewPCG(seed, 0))}
	c.slotMS = []int64{10_000, 30_000, 60_000}[c.IntN(3)]
	c.nodes = []string{"n1", "n2", "n3"}[:1+c.IntN(3)]
	for i := range 1 + c.IntN(4) {
		c.gpus = append(c.gpus, c.gpu(i))
	}
	const fullHour = 1_772_326_800_000 // 2026-03-01T01:00:00Z
	before, after := 1+c.Int64N(6), 1+c.Int64N(8)
	for i := -before; i < after; i++ {
		c.slot(fullHour + i*c.slotMS)
	}
	if c.chance(0.03) && c.slotMS == 60_000 { // long silence
		c.slot(fullHour + 25*3_600_000 + c.Int64N(3)*c.slotMS)
	}
	if len(c.out) == 0 {
		c.batch("n1", fullHour)
	}
	c.Shuffle(len(c.out), func(i, j int) { c.out[i], c.out[j] = c.out[j], c.out[i] })
	return c.out
}

// randomRetirements retires some GPUs at starts of slots, listed or not.
func randomRetirements(seed uint64, batches []*wire.Batch) map[string][]int64 {
	c := &randomCluster{Rand: rand.New(rand.NewPCG(seed, 1))}
	slotMS, out := batches[0].SlotMs, map[string][]int64{}
	first, last := slices.MinFunc(batches, byStart).SlotStartMs, slices.MaxFunc(batches, byStart).SlotStartMs
	for _, b := range batches {
		for _, g := range b.Gpus {
			if out[g.Uuid] == nil && c.chance(0.04) {
				for range pick(c, 1, 1, 1, 2, 3) {
					out[g.Uuid] = append(out[g.Uuid], first+c.Int64N(min(last-first, 12*slotMS)/slotMS+2)*slotMS)
				}
				slices.Sort(out[g.Uuid])
				out[g.Uuid] = slices.Compact(out[g.Uuid])
			}
		}
	}
	return out
}

func (c *randomCluster) chance(p float64) bool { return c.Float64() < p }

func pick[T any](c *randomCluster, from ...T) T { return from[c.IntN(len(from))] }

// within is a time in the slot, mostly on a half second.
func (c *randomCluster) within() int64 {
	if c.chance(0.1) {
		return c.Int64N(c.slotMS + 1)
	}
	return c.Int64N(c.slotMS/500+1) * 500
}

func (c *randomCluster) span() (from, to int64) {
	from, to = c.within(), c.within()
	return min(from, to), max(from, to)
}

func (c *randomCluster) gpu(i int) *randomGPU {
	g := &randomGPU{uuid: fmt.Sprintf("GPU-%c", 'a'+i), nodes: []string{pick(c, c.nodes...)}}
	switch c.IntN(6) {
	case 0:
		g.model, g.slices = "Tesla T4", 1
	case 1:
		g.model, g.slices = "Unheard-of 9", pick(c, uint32(0), 1, 5)
	case 2:
		g.model, g.slices, g.mig = "NVIDIA A30", pick(c, uint32(0), 4), true
	case 5:
		g.model, g.slices, g.pool = "NVIDIA A100-SXM4-40GB", pick(c, uint32(1), 1000, 2500, 16_000), true
		g.open = c.chance(0.4)
	case 3:
		g.model, g.slices = "NVIDIA H100 80GB HBM3", pick(c, uint32(0), 7)
	default:
		g.model, g.slices, g.mig = "NVIDIA H100 80GB HBM3", 7, true
	}
	c.layout(g)
	return g
}

// layout divides the GPU anew; holders of what is gone are gone.
func (c *randomCluster) layout(g *randomGPU) {
	g.leaves, g.holds = nil, nil
	if g.pool {
		c.allocations(g)
	} else if !g.mig {
		g.leaves = []*wire.Leaf{{Id: "gpu", Slices: pick(c, 0, g.slices)}}
	} else {
		room := int(max(g.slices, 4))
		for gi := uint32(1); room > 0 && !c.chance(0.2); gi++ {
			n := min(1+c.IntN(4), room)
			room -= n
			leaf := &wire.Leaf{Id: fmt.Sprintf("gi%d", gi), Gi: &gi, Slices: uint32(n), Profile: fmt.Sprintf("%dg.x", n)}
			if g.slices == 7 && n == 3 && c.chance(0.3) {
				leaf.Slices, leaf.Profile = 0, "3g.40gb"
			}
			if n == 2 && c.chance(0.3) { // two compute instances instead
				for ci := range uint32(2) {
					half := proto.Clone(leaf).(*wire.Leaf)
					half.Id, half.Ci, half.Slices = fmt.Sprintf("gi%d/%d", gi, ci), &ci, 1
					g.leaves = append(g.leaves, half)
				}
				continue
			}
			g.leaves = append(g.leaves, leaf)
		}
	}
	for _, l := range g.leaves {
		if c.chance(0.3) {
			l.Replicas = uint32(1 + c.IntN(4))
		}
		for range pick(c, 0, 1, 1, 1, 2, 3, 5) {
			g.holds = append(g.holds, &wire.Hold{Leaf: l.Id, Owner: c.owner()})
		}
	}
}

func (c *randomCluster) owner() *wire.Owner {
	return pick(c,
		&wire.Owner{Namespace: "a", Pod: "p", Uid: "u1", Container: pick(c, "", "x", "y")},
		&wire.Owner{Namespace: "a", Pod: "p", Uid: "u2"},
		&wire.Owner{Namespace: "b", Pod: "p", Container: pick(c, "", "x")},
		&wire.Owner{Namespace: "b", Pod: "q"},
		&wire.Owner{Job: "17", User: "eve", Account: "c"},
		&wire.Owner{Tenant: "static"},
		&wire.Owner{},
	)
}

// slot lets the world change a little, then lets each node speak of it.
func (c *randomCluster) slot(start int64) {
	for _, g := range c.gpus {
		switch {
		case c.chance(0.05):
			c.layout(g)
		case c.chance(0.05):
			g.nodes = []string{pick(c, c.nodes...)}
		case c.chance(0.05):
			g.nodes = slices.Clone(c.nodes[:min(2, len(c.nodes))])
		case len(g.leaves) > 0 && c.chance(0.15):
			g.holds = append(g.holds, &wire.Hold{Leaf: pick(c, g.leaves...).Id, Owner: c.owner()})
		case len(g.holds) > 0 && c.chance(0.15):
			g.holds = slices.Delete(slices.Clone(g.holds), 0, 1)
		}
	}
	for _, node := range c.nodes {
		for range pick(c, 0, 1, 1, 1, 1, 1, 1, 1, 2, 3) {
			c.batch(node, start)
		}
	}
}

func (c *randomCluster) batch(node string, start int64) {
	c.seq++
	b := &wire.Batch{
		Format: wire.Format, Cluster: "k", Node: node, SlotStartMs: start, SlotMs: c.slotMS,
		Collector: pick(c, "c1", "c1", "c2"), BootMs: pick(c, int64(1000), 1000, 2000), Seq: c.seq,
	}
	if c.chance(0.2) {
		b.Attribution = wire.Attribution_ATTRIBUTION_FAILED
	}
	if c.chance(0.15) {
		b.Enumeration = wire.Enumeration_ENUMERATION_PARTIAL
	}
	switch {
	case c.chance(0.05):
		b.Unobserved = true
	case c.chance(0.25):
		b.Observed = c.observed()
	}
	for _, g := range c.gpus {
		if slices.Contains(g.nodes, node) && !c.chance(0.08) {
			b.Gpus = append(b.Gpus, c.record(g))
		}
	}
	c.out = append(c.out, b)
	if c.chance(0.1) {
		c.out = append(c.out, proto.Clone(b).(*wire.Batch))
	}
}

func (c *randomCluster) observed() []*wire.Interval {
	var cuts []int64
	for range pick(c, 2, 2, 4, 6) {
		cuts = append(cuts, c.within())
	}
	slices.Sort(cuts)
	if c.chance(0.5) {
		cuts[0] = 0
	}
	if c.chance(0.5) {
		cuts[len(cuts)-1] = c.slotMS
	}
	var out []*wire.Interval
	for i := 0; i+1 < len(cuts); i += 2 {
		if cuts[i] < cuts[i+1] {
			out = append(out, &wire.Interval{FromMs: cuts[i], ToMs: cuts[i+1]})
		}
	}
	return out
}

func (c *randomCluster) record(g *randomGPU) *wire.Gpu {
	r := &wire.Gpu{
		Uuid: g.uuid, Model: g.model, Slices: g.slices, Mig: g.mig,
		Lost: c.chance(0.04), Unhealthy: c.chance(0.08), EnergyReset: c.chance(0.03),
		PowerWatts: c.value(0, 60, 80, 80.5, 400), IdleWatts: c.value(80, 80, 65.5, 0),
	}
	if c.chance(0.7) {
		r.EnergyMj = proto.Int64(pick(c, 0, 1, 17, 100_000, 800_000, c.Int64N(9_000_000), c.Int64N(400_000_000)))
	}
	if c.chance(0.3) {
		r.EnergySpanMs = proto.Int64(pick(c, 0, 1, c.slotMS/2, c.slotMS*3/2, c.slotMS*3/2+1, 3_600_000))
	}
	if g.pool {
		return c.poolRecord(g, r)
	}
	if c.chance(0.06) {
		r.Slices = pick(c, 0, uint32(1), 4, 7, 8)
	}
	for _, l := range g.leaves {
		r.Leaves = append(r.Leaves, c.leaf(l))
	}
	for _, h := range g.holds {
		r.Holds = append(r.Holds, c.hold(h))
	}
	c.reconfigure(g, r)
	return r
}

// value is a reading that may be absent or impossible.
func (c *randomCluster) value(likely ...float64) *float64 {
	switch {
	case c.chance(0.2):
		return nil
	case c.chance(0.06):
		return proto.Float64(pick(c, -1, 2e6, math.NaN(), math.Inf(1), math.Inf(-1)))
	default:
		return proto.Float64(pick(c, likely...))
	}
}

func (c *randomCluster) leaf(l *wire.Leaf) *wire.Leaf {
	out := proto.Clone(l).(*wire.Leaf)
	out.Unhealthy = c.chance(0.08)
	out.SmActive = c.value(0, 0, 0.00499, 0.005, 0.3, 0.8, 1, 1.5)
	out.GrEngineActive = c.value(0, 0, 0.004, 0.25, 7)
	out.GpuUtil = c.value(0, 0, 40, 4_294_967_295)
	return out
}

func (c *randomCluster) hold(h *wire.Hold) *wire.Hold {
	out := proto.Clone(h).(*wire.Hold)
	if c.chance(0.25) {
		from, to := c.span()
		if c.chance(0.7) {
			out.FromMs = &from
		}
		if c.chance(0.7) {
			out.ToMs = &to
		}
	}
	return out
}

// reconfigure lets a record differ from the GPU's layout: leaves that begin or
// end in the slot, others after them, and leaves beyond the slices.
func (c *randomCluster) reconfigure(g *randomGPU, r *wire.Gpu) {
	switch {
	case len(r.Leaves) > 0 && c.chance(0.12):
		l := pick(c, r.Leaves...)
		if from, to := c.span(); from < to {
			l.FromMs, l.ToMs = &from, &to
		}
	case g.mig && c.chance(0.08): // all is cut anew at one instant
		at := c.within()
		for _, l := range r.Leaves {
			l.ToMs = &at
		}
		r.Leaves = append(r.Leaves, &wire.Leaf{Id: "new", Gi: proto.Uint32(9), Slices: uint32(1 + c.IntN(4)), Profile: "new", FromMs: &at, SmActive: c.value(0, 0.5)})
		if c.chance(0.6) {
			r.Holds = append(r.Holds, &wire.Hold{Leaf: "new", Owner: c.owner()})
		}
	case c.chance(0.04):
		r.Leaves = append(r.Leaves, &wire.Leaf{Id: "beyond", Gi: proto.Uint32(8), Slices: 3})
	case c.chance(0.04):
		r.Leaves, r.Holds = nil, nil
	}
}

// allocations are parts of a pool, in thousandths of a GPU.
func (c *randomCluster) allocations(g *randomGPU) {
	for room := g.slices; room > 0 && !c.chance(0.2); {
		n := min(pick(c, 1, 333, 500, 1000, 2000, 1+c.Uint32N(g.slices)), room)
		room -= n
		g.leaves = append(g.leaves, &wire.Leaf{Id: fmt.Sprintf("job%d", len(g.leaves)), Slices: n})
	}
}

// poolRecord lists a pool's allocations. Evidence is there now and then, and
// says nothing: nobody measures a part of a pool.
func (c *randomCluster) poolRecord(g *randomGPU, r *wire.Gpu) *wire.Gpu {
	r.Pool, r.UnknownCapacity, r.EnergyMj = true, g.open, nil
	if c.chance(0.06) {
		r.Slices = pick(c, uint32(1), 999, 1000, 16_000, 17_000)
	}
	for _, l := range g.leaves {
		out := c.leaf(l)
		if c.chance(0.3) {
			from, to := c.span()
			out.FromMs, out.ToMs = &from, &to
		}
		r.Leaves = append(r.Leaves, out)
	}
	for _, h := range g.holds {
		r.Holds = append(r.Holds, c.hold(h))
	}
	if c.chance(0.04) {
		r.Leaves = append(r.Leaves, &wire.Leaf{Id: "beyond", Slices: 1 + c.Uint32N(2000)})
	}
	return r
}
