package meter

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gputally/gputally/internal/wire"
)

// Row is the part of one batch that concerns one (GPU, leaf, owner, bucket, why). Leaf
// 0 is the GPU itself, owner 0 the platform.
type Row struct {
	Leaf, Owner    uint64
	Bucket         Bucket
	Why            Why
	EnergyWhy      EnergyWhy // of the GPU's slot, the same in all its rows
	SliceMS        int64
	Work           int64 // activity × slice_ms, in 1e-4 slice-ms
	EnergyMJ       int64
	UnattributedMJ int64 // energy that belongs to no slot (R16)
	Head, Tail     Share // shares at the first and the last observed instant of the slot (R10)
}

// GPUSlot is the part of one batch that concerns one GPU. Pending rows are classified
// with the hour; all others sum to Slices × the observed time. The rows of a fill sum
// only to the time that its records hold.
type GPUSlot struct {
	UUID, Model string
	Slices      int // 0: unknown (a lost GPU of unknown size)
	Kind        Kind
	Rows        []Row
	Finding     string // a contradiction that operators should know of, or empty
}

// Classify applies the rules of one slot to a validated batch (R4, R9, R12, R13, R16).
// The result depends on the batch alone; ids only caches hashes.
func Classify(b *wire.Batch, ids *Identities) []GPUSlot {
	out := make([]GPUSlot, 0, len(b.Gpus))
	observed := toSpans(wire.Observed(b))
	for _, g := range b.Gpus {
		s := classifier{
			ids: ids, gpu: g, slotStartMS: b.SlotStartMs, slotMS: b.SlotMs,
			observed: observed, observedMS: spanLength(observed), failed: !wire.AttributionOK(b),
			imported: b.Origin == wire.Origin_ORIGIN_IMPORT,
		}
		slot := s.classify()
		if b.Fill {
			slot.Rows = recordsOnly(slot.Rows)
		}
		out = append(out, slot)
	}
	return out
}

// classifier classifies one GPU of one batch. load and owners are parallel to rows: the
// activity behind each row (negative: absent) and the id of its owner, both for the
// split of the energy.
type classifier struct {
	ids         *Identities
	gpu         *wire.Gpu
	slotStartMS int64
	slotMS      int64
	observed    []span
	observedMS  int64
	failed      bool
	imported    bool

	slices int
	kind   Kind
	leaves []leafState
	holds  map[string][]*wire.Hold // by leaf, used where there are many
	rows   []Row
	load   []float64
	owners []string

	working int // number of leaves whose activity is not quiet

	finding string
}

type leafState struct {
	wire   *wire.Leaf
	slices int
	hash   uint64
	span   span   // when it exists, in the slot
	seen   []span // when it exists, within the observed parts
	seenMS int64
	signals
}

func (s *classifier) classify() GPUSlot {
	g := s.gpu
	out := GPUSlot{UUID: g.Uuid, Model: g.Model, Slices: gpuSlices(g), Kind: kindOf(g)}
	s.slices, s.kind = out.Slices, out.Kind
	platformOnly := s.failed || g.Lost
	switch {
	case g.Lost:
		s.add(Row{Bucket: Unhealthy, Why: WhyLost, SliceMS: int64(s.slices) * s.observedMS}, 0, "")
	default:
		s.readLeaves()
		if most := s.mostSlices(); most > s.slices {
			out.Finding = fmt.Sprintf("leaves of GPU %s cover %d slices, but the GPU has %d", g.Uuid, most, s.slices)
			s.add(Row{Bucket: Unobserved, Why: WhyExcess, SliceMS: int64(s.slices) * s.observedMS}, 0, "")
			platformOnly = true
			break
		}
		s.strand()
		for i := range s.leaves {
			if s.failed {
				s.pend(&s.leaves[i])
			} else {
				s.classifyLeaf(&s.leaves[i])
			}
		}
	}
	if len(s.rows) == 0 { // so that raw shows that the GPU was listed
		s.add(Row{Bucket: Unobserved, Why: WhyListed}, 0, "")
	}
	how := splitEnergy(s.slotStartMS, s.slotMS, g, s.rows, s.load, s.owners, platformOnly)
	for i := range s.rows {
		s.rows[i].EnergyWhy = how
	}
	out.Rows = s.rows
	if how == EnergyRefused {
		s.finding = cmp.Or(s.finding,
			fmt.Sprintf("GPU %s reports %d mJ, more than a GPU can take in that time: its energy is left out", g.Uuid,
				*g.EnergyMj))
	}
	out.Finding = cmp.Or(out.Finding, s.finding)
	return out
}

func (s *classifier) add(r Row, load float64, owner string) {
	s.rows = append(s.rows, r)
	s.load = append(s.load, load)
	s.owners = append(s.owners, owner)
}

// gpuSlices is the GPU's capacity: as read, else that of its model, else 1; 0 if it is
// lost and neither is known.
func gpuSlices(g *wire.Gpu) int {
	if g.Slices > 0 {
		return int(g.Slices)
	}
	if m, ok := ModelByName(g.Model); ok {
		return m.Slices
	}
	if g.Lost {
		return 0
	}
	return 1
}

// leafSlices is the leaf's size: as read; all slices for a whole GPU; for an instance
// as its model's profiles say, never derived from the profile's name.
func leafSlices(g *wire.Gpu, l *wire.Leaf, slices int) int {
	if l.Slices > 0 {
		return int(l.Slices)
	}
	if !g.Mig {
		return slices
	}
	if m, ok := ModelByName(g.Model); ok {
		if n, ok := m.Profiles[BaseProfile(l.Profile)]; ok {
			return n
		}
	}
	return 1
}

func (s *classifier) readLeaves() {
	s.leaves = make([]leafState, 0, len(s.gpu.Leaves))
	for _, l := range s.gpu.Leaves {
		lo, hi := wire.Span(l.FromMs, l.ToMs, s.slotMS)
		st := leafState{wire: l, slices: leafSlices(s.gpu, l, s.slices), span: span{lo, hi}}
		if s.kind == Board { // parts of a pool have no measurements
			st.signals = readSignals(s.gpu, l)
		}
		identity := Leaf{ID: l.Id, Slices: st.slices, Profile: l.Profile, GI: -1, CI: -1, MIGUUID: l.MigUuid}
		if l.Gi != nil {
			identity.GI = int32(*l.Gi)
		}
		if l.Ci != nil {
			identity.CI = int32(*l.Ci)
		}
		st.hash = s.ids.leaf(identity)
		st.seen = clip(s.observed, st.span)
		st.seenMS = spanLength(st.seen)
		if st.a && !st.aQuiet {
			s.working++
		}
		s.leaves = append(s.leaves, st)
	}
}

// strand adds the slices that no leaf covers (R9.3, R18).
func (s *classifier) strand() {
	stranded := int64(s.slices) * s.observedMS
	for i := range s.leaves {
		stranded -= int64(s.leaves[i].slices) * s.leaves[i].seenMS
	}
	switch {
	case stranded <= 0:
	case s.kind != Board:
		s.leftOver(stranded)
	default:
		s.add(Row{Bucket: Stranded, Why: WhyUncovered, SliceMS: stranded}, 0, "")
	}
}

// pend leaves the time of a leaf without known owners to Hour (R4, R10).
func (s *classifier) pend(l *leafState) {
	if l.seenMS == 0 {
		return
	}
	r := Row{Leaf: l.hash, Bucket: Pending, Why: WhyAttribution, SliceMS: int64(l.slices) * l.seenMS}
	if l.seenMS == s.observedMS { // listed throughout, so it doesn't contradict the holders of a gap
		r.Head = makeShare(1, 1)
	}
	s.add(r, 0, "")
}

// classifyLeaf divides the leaf among its holders (R12) and classifies each holder's
// time by the leaf's evidence (R13), in the order of R9.
func (s *classifier) classifyLeaf(l *leafState) {
	if l.seenMS == 0 {
		return
	}
	t := s.timeline(l)
	flagged := s.gpu.Unhealthy || l.wire.Unhealthy
	working, _ := l.working()
	load := -1.0
	if a, ok := activity(l.wire); ok && s.kind == Board {
		load = a
	}
	unhealthy := t.freeMS
	for i, h := range t.holders {
		if flagged && !working {
			unhealthy += h.sliceMS
			continue
		}
		bucket, why := s.heldBucket(l, &t, i)
		s.add(Row{
			Leaf: l.hash, Owner: h.id.hash, Bucket: bucket, Why: why, SliceMS: h.sliceMS,
			Work: int64(math.Round(max(load, 0) * 1e4 * float64(h.sliceMS))),
			Head: t.head[i], Tail: t.tail[i],
		}, load, h.id.id)
	}
	free := Row{Leaf: l.hash, Bucket: Free, Why: WhyNotHeld, SliceMS: t.freeMS}
	if len(t.holders) == 0 && working { // stays free (R4), but an operator should look at it
		free.Why = WhyUnownedWork
		s.finding = fmt.Sprintf("leaf %s of GPU %s works, but nobody holds it", l.wire.Id, s.gpu.Uuid)
	}
	if flagged {
		free.Bucket, free.Why, free.SliceMS = Unhealthy, WhyFlagged, unhealthy
	}
	if free.SliceMS > 0 {
		s.add(free, load, "")
	}
	if !flagged || working {
		s.inferInside(l, &t)
	}
}

// heldBucket classifies the time of the i-th holder (R13).
func (s *classifier) heldBucket(l *leafState, t *timeline, i int) (Bucket, Why) {
	if working, why := l.working(); working {
		if len(t.holders) > 1 {
			return Unproven, WhyShared
		}
		return Active, why
	}
	resting, why := l.resting(s.gpu.Mig, s.gpu.Mig && s.otherWorks(l))
	switch {
	case why == WhyNoSignal && s.imported:
		return Unproven, WhyImported
	case !resting:
		return Unproven, why
	case t.holders[i].coveredMS != s.observedMS:
		return Unproven, WhyPartly
	}
	return Idle, why
}

// otherWorks reports whether another leaf's activity is not quiet, which proves that
// profiling metrics are collected.
func (s *classifier) otherWorks(l *leafState) bool {
	if l.a && !l.aQuiet {
		return s.working > 1
	}
	return s.working > 0
}
