package sim

import (
	"slices"
	"sort"

	"github.com/gputally/gputally/internal/wire"
)

// DCGM field ids of the additional metrics (dcgm_fields.h).
var (
	// temperatures °C, clocks MHz, PCIe B/s, NVLink MB/s, ECC
	boardFields = []uint32{150, 140, 100, 101, 1009, 1010, 449, 310}
	leafFields  = []uint32{1004, 1005, 252, 251} // tensor, DRAM, FB used and free MiB
)

// readNode returns one node's batch; nil: the node is down.
func (s *Source) readNode(p *plan, ni int, slot span) *wire.Batch {
	n, v := &s.fleet.nodes[ni], newView(slot, p.outages[ni])
	if v.down {
		return nil
	}
	b := &wire.Batch{
		Format: 1, Cluster: s.config.Cluster, Node: n.Name, SlotStartMs: slot.from, SlotMs: slot.len(),
		Attribution: wire.Attribution_ATTRIBUTION_OK, Enumeration: wire.Enumeration_ENUMERATION_COMPLETE,
		Origin: wire.Origin_ORIGIN_SIMULATED, WindowFromMs: s.window.from, WindowToMs: s.window.to, ClusterSlotMs: slot.len(),
	}
	if len(v.observed) == 0 {
		b.Unobserved, b.Enumeration = true, wire.Enumeration_ENUMERATION_PARTIAL
		return b
	}
	if v.observedMS() < slot.len() {
		for _, o := range v.observed {
			b.Observed = append(b.Observed, &wire.Interval{FromMs: o.from - slot.from, ToMs: o.to - slot.from})
		}
	}
	if v.failed {
		b.Attribution = wire.Attribution_ATTRIBUTION_FAILED
	}
	b.Gpus = make([]*wire.Gpu, len(n.boards))
	for i := range n.boards {
		r := boardReader{plan: p, view: &v, board: &n.boards[i], sight: v.sight(i)}
		b.Gpus[i] = r.read(i)
	}
	b.Events = s.events(p, &v, ni)
	return b
}

// boardReader reads one board in one slot.
type boardReader struct {
	plan  *plan
	view  *view
	board *board
	sight sight

	energyMJ int64 // in addition to the energy at rest
	activity int64 // ppm-ms times slices, of the board
}

func (r *boardReader) read(index int) *wire.Gpu {
	b := r.board
	g := &wire.Gpu{
		Uuid: b.uuid, Model: b.Name, Slices: b.Slices, Index: uint32(index), IdleWatts: new(b.IdleWatts),
		Mig: b.MIG, Lost: r.sight.lost, Unhealthy: r.sight.unhealthy,
	}
	if alive := b.exists(r.view.slot.from).clip(r.view.slot); !alive.empty() {
		for i := range b.leaves {
			g.Leaves = append(g.Leaves, r.leaf(g, &b.leaves[i], alive))
		}
	}
	r.power(g)
	return g
}

// leaf reads a leaf and appends its holds.
func (r *boardReader) leaf(g *wire.Gpu, l *leaf, alive span) *wire.Leaf {
	m := &wire.Leaf{Id: l.id, Slices: l.slices, Profile: l.profile, Replicas: r.board.Replicas}
	if l.gi >= 0 {
		m.Gi, m.Ci, m.MigUuid = new(uint32(l.gi)), new(uint32(0)), r.plan.migUUIDs[l.lane]
	}
	m.FromMs, m.ToMs = r.within(alive)
	var t tally
	held := int64(0) // seed of the last owner with memory on the leaf
	for lane := l.lane; lane < l.lane+l.lanes; lane++ {
		runs := overlapping(r.plan.lanes[lane], span{r.view.energy.from, r.view.slot.to})
		for i := range runs {
			u := &runs[i]
			r.account(&t, u, l)
			if r.hold(g, u, l, alive) {
				held = int64(u.load.seed >> 1)
			}
		}
	}
	r.activity += t.activity / int64(l.lanes) * int64(l.slices)
	if !r.sight.lost {
		r.evidence(m, l, &t, held)
	}
	return m
}

// account adds a run's energy between the readings, and its activity in the observed part of the slot: the same time
// unless something failed.
func (r *boardReader) account(t *tally, u *run, l *leaf) {
	before := t.energyMJ
	for _, s := range r.sight.seen {
		t.add(&u.load, l, u.clip(s))
	}
	if !slices.Equal(r.sight.seen, r.sight.busy) {
		var e tally
		for _, s := range r.sight.busy {
			e.add(&u.load, l, u.clip(s))
		}
		t.energyMJ = before + e.energyMJ
	}
	r.energyMJ += t.energyMJ - before
}

// overlapping returns the runs that overlap a time; runs ascend.
func overlapping(runs []run, at span) []run {
	first := sort.Search(len(runs), func(i int) bool { return runs[i].to > at.from })
	end := sort.Search(len(runs), func(i int) bool { return runs[i].from >= at.to })
	return runs[first:max(first, end)]
}

// within converts a part of the slot; missing bounds are the slot's own.
func (r *boardReader) within(s span) (from, to *int64) {
	if s.from > r.view.slot.from {
		from = new(s.from - r.view.slot.from)
	}
	if s.to < r.view.slot.to {
		to = new(s.to - r.view.slot.from)
	}
	return from, to
}

// hold appends the observed part of a run's hold, if owners could be read.
func (r *boardReader) hold(g *wire.Gpu, u *run, l *leaf, alive span) bool {
	held := false
	for _, o := range r.view.observed {
		s := u.clip(o).clip(alive)
		if s.empty() {
			continue
		}
		held = true
		if r.view.failed {
			continue
		}
		h := &wire.Hold{Leaf: l.id, Owner: u.owner.message()}
		h.FromMs, h.ToMs = r.within(s)
		g.Holds = append(g.Holds, h)
	}
	return held
}

// evidence sets the leaf's activity: the mean over the observed time, and if nothing ran the 3e-5 to 6e-5 that
// profilers report at rest.
func (r *boardReader) evidence(m *wire.Leaf, l *leaf, t *tally, held int64) {
	seenMS := r.view.observedMS()
	sm := float64(t.activity/int64(l.lanes)) / float64(seenMS) / ppm
	gr := min(1, sm*1.04)
	if t.activity == 0 {
		noise := derive(l.seed, r.view.slot.from)
		sm = 3e-5 + float64(below(noise, 3000))*1e-8
		gr = sm
	}
	m.SmActive, m.GrEngineActive = new(sm), new(gr)
	tensor, dram := 0.0, 0.0
	if sm*ppm >= busyPPM {
		tensor, dram = sm*0.55, sm*0.4
	}
	if !r.board.MIG {
		m.GpuUtil = new(utilisation(t.busyMS, seenMS, l.lanes, sm))
	}
	used := int64(0)
	if held != 0 {
		used = l.memoryMiB*35/100 + below(mix(uint64(held)), l.memoryMiB*60/100)
	}
	m.MetricFields = slices.Clone(leafFields)
	m.MetricValues = []float64{tensor, dram, float64(used), float64(l.memoryMiB - used)}
}

// utilisation is the percentage of time in which a kernel ran, as a whole number: above zero whenever activity is.
func utilisation(busyMS, seenMS int64, lanes int, sm float64) float64 {
	u := min(100, busyMS*98/seenMS)
	if lanes > 1 { // kernels of the lanes run at the same time
		u = min(u, 99)
	}
	if u == 0 && sm*ppm >= busyPPM {
		u = 1
	}
	return float64(u)
}

// power sets the energy counter's increase, the power, and the metrics that follow from them.
func (r *boardReader) power(g *wire.Gpu) {
	readable := !r.sight.lost || r.sight.reset
	covers := r.sight.counterSpan.len()
	if !readable || covers == 0 {
		return
	}
	energy := r.energyMJ
	for _, s := range r.sight.energy {
		energy += r.board.restEnergyMJ(s)
	}
	g.EnergyMj, g.EnergySpanMs, g.EnergyReset = new(energy), new(covers), r.sight.reset
	if r.sight.lost {
		return
	}
	watts := float64(energy) / float64(covers)
	g.PowerWatts = new(watts)
	m := r.board.model
	act := float64(r.activity) / float64(r.view.observedMS()) / ppm / float64(m.Slices)
	temp := 28 + float64(int64(watts)*48/m.MaxWatts)
	clock, nvlink := 345.0, 0.0
	if act*ppm >= busyPPM {
		clock, nvlink = m.SMClockMhz, float64(int64(act*180_000))
	}
	pcie := float64(int64(act * 6e9))
	g.MetricFields = slices.Clone(boardFields)
	g.MetricValues = []float64{temp, temp + 7, clock, m.MemClockMhz, pcie, pcie / 2, nvlink, 0}
	if r.board.MIG {
		g.MetricFields = append(g.MetricFields, 1001, 1002) // the board's own activity
		g.MetricValues = append(g.MetricValues, min(1, act*1.04), act)
		return
	}
	g.MetricFields = append(g.MetricFields, 311) // volatile ECC errors
	g.MetricValues = append(g.MetricValues, 0)
}
