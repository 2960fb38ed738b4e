package meter_test

import (
	"cmp"
	"maps"
	"math"
	"math/big"
	"slices"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

// The slow model inside one slot: R4, R9, R12, R13, R16.

func slowSpan(from, to *int64, slotMS int64) (int64, int64) {
	lo, hi := int64(0), slotMS
	if from != nil {
		lo = *from
	}
	if to != nil {
		hi = *to
	}
	return lo, hi
}

// cut cuts a slot at everything that begins or ends in it.
func (m *slowModel) cut(s *slowSlot) {
	at := map[int64]bool{0: true, m.slotMS: true}
	if s.batch != nil {
		for _, o := range slowObserved(s.batch) {
			at[o[0]], at[o[1]] = true, true
		}
	}
	if s.record != nil {
		for _, l := range s.record.Leaves {
			lo, hi := slowSpan(l.FromMs, l.ToMs, m.slotMS)
			at[lo], at[hi] = true, true
		}
		for _, h := range s.record.Holds {
			lo, hi := slowSpan(h.FromMs, h.ToMs, m.slotMS)
			at[lo], at[hi] = true, true
		}
	}
	times := slices.Sorted(maps.Keys(at))
	for i, lo := range times[:len(times)-1] {
		c := &slowCell{
			slot: s.start, life: s.life, from: s.start + lo, to: s.start + times[i+1], node: s.node,
			leaves: map[slowLeaf]*slowUse{}, inferred: map[slowLeaf]map[string]*big.Rat{},
		}
		c.what = m.knowledge(s, lo)
		if c.what == slowOwnerless || c.what == slowAll {
			for _, l := range s.record.Leaves {
				if from, to := slowSpan(l.FromMs, l.ToMs, m.slotMS); from <= lo && lo < to {
					c.leaves[slowIdentity(s.record, l)] = m.use(s, l, lo)
				}
			}
		}
		s.cells = append(s.cells, c)
	}
}

// knowledge is what is known of a GPU at an instant of the slot.
func (m *slowModel) knowledge(s *slowSlot, at int64) slowKnowledge {
	switch {
	case s.batch == nil, s.batch.Unobserved:
		return slowNothing
	case s.record != nil && !s.record.Lost && m.beyond(s): // the whole slot, seen or not
		return slowContradicted
	case !slowSeen(s.batch, at):
		return slowNothing
	case s.record == nil && s.batch.Enumeration == wire.Enumeration_ENUMERATION_PARTIAL:
		return slowNothing
	case s.record == nil, s.record.Lost:
		return slowLost
	case s.batch.Attribution == wire.Attribution_ATTRIBUTION_FAILED:
		return slowOwnerless
	default:
		return slowAll
	}
}

func slowSeen(b *wire.Batch, at int64) bool {
	for _, o := range slowObserved(b) {
		if o[0] <= at && at < o[1] {
			return true
		}
	}
	return false
}

// beyond says that the record has more slices than the hour, or at any instant
// leaves of more slices than itself.
func (m *slowModel) beyond(s *slowSlot) bool {
	if slowSlices(s.record) > s.slices || slowKindOf(s.record) != s.kind {
		return true
	}
	for _, one := range s.record.Leaves {
		at, _ := slowSpan(one.FromMs, one.ToMs, m.slotMS)
		var sum int64
		for _, l := range s.record.Leaves {
			if lo, hi := slowSpan(l.FromMs, l.ToMs, m.slotMS); lo <= at && at < hi {
				sum += slowIdentity(s.record, l).slices
			}
		}
		if sum > slowSlices(s.record) {
			return true
		}
	}
	return false
}

// slowIdentity names a leaf; absent slices are all of the GPU's without MIG,
// else the model table's for the profile, else 1.
func slowIdentity(g *wire.Gpu, l *wire.Leaf) slowLeaf {
	k := slowLeaf{id: l.Id, profile: l.Profile, uuid: l.MigUuid, gi: -1, ci: -1, slices: int64(l.Slices)}
	if l.Gi != nil {
		k.gi = int64(*l.Gi)
	}
	if l.Ci != nil {
		k.ci = int64(*l.Ci)
	}
	if k.slices == 0 && !g.Mig {
		k.slices = slowSlices(g)
	}
	if k.slices == 0 {
		model, _ := meter.ModelByName(g.Model)
		k.slices = int64(cmp.Or(model.Profiles[meter.BaseProfile(l.Profile)], 1))
	}
	return k
}

// use is a leaf at an instant: shares by R12, buckets by R9 and R13.
func (m *slowModel) use(s *slowSlot, l *wire.Leaf, at int64) *slowUse {
	u := &slowUse{share: map[string]*big.Rat{}, what: map[string]string{}, rest: "free"}
	if s.batch.Attribution == wire.Attribution_ATTRIBUTION_FAILED {
		return u
	}
	entries := []string{}
	for _, h := range s.record.Holds {
		if lo, hi := slowSpan(h.FromMs, h.ToMs, m.slotMS); h.Leaf == l.Id && lo <= at && at < hi {
			entries = append(entries, m.owner(h))
		}
	}
	parts := int64(len(entries))
	if int64(l.Replicas) >= parts {
		parts = int64(l.Replicas)
	}
	for _, id := range entries {
		if u.share[id] == nil {
			u.share[id] = new(big.Rat)
		}
		u.share[id].Add(u.share[id], big.NewRat(1, parts))
	}
	flagged := s.record.Unhealthy || l.Unhealthy
	if flagged {
		u.rest = "unhealthy"
	}
	several := len(m.ownersInSlot(s, l)) > 1
	evidence := s.record
	if s.kind != slowBoard { // nobody measures a part of a pool
		evidence, l = &wire.Gpu{}, &wire.Leaf{Id: l.Id, FromMs: l.FromMs, ToMs: l.ToMs}
	}
	for id := range u.share {
		switch {
		case slowWorks(evidence, l) && several:
			u.what[id] = "unproven"
		case slowWorks(evidence, l):
			u.what[id] = "active"
		case flagged:
			u.what[id] = "unhealthy"
		case slowRests(evidence, l) && m.coversAll(s, l, id):
			u.what[id] = "idle"
		default:
			u.what[id] = "unproven"
		}
	}
	if a, ok := slowActivity(l); ok {
		u.a = big.NewRat(int64(math.Round(a*1e9)), 1e9) // the resolution of activity
	}
	return u
}

func (m *slowModel) owner(h *wire.Hold) string {
	o := meter.OwnerOf(h.Owner)
	m.owners[o.ID()] = o
	return o.ID()
}

// heldBy says whether an owner has a leaf at an instant.
func (m *slowModel) heldBy(s *slowSlot, l *wire.Leaf, owner string, at int64) bool {
	if lo, hi := slowSpan(l.FromMs, l.ToMs, m.slotMS); at < lo || at >= hi {
		return false
	}
	for _, h := range s.record.Holds {
		if lo, hi := slowSpan(h.FromMs, h.ToMs, m.slotMS); h.Leaf == l.Id && lo <= at && at < hi && m.owner(h) == owner {
			return true
		}
	}
	return false
}

// edges are the instants of a slot at which something may change.
func (m *slowModel) edges(s *slowSlot) []int64 {
	at := map[int64]bool{0: true}
	for _, l := range s.record.Leaves {
		lo, hi := slowSpan(l.FromMs, l.ToMs, m.slotMS)
		at[lo], at[hi] = true, true
	}
	for _, h := range s.record.Holds {
		lo, hi := slowSpan(h.FromMs, h.ToMs, m.slotMS)
		at[lo], at[hi] = true, true
	}
	for _, o := range slowObserved(s.batch) {
		at[o[0]], at[o[1]] = true, true
	}
	return slices.Sorted(maps.Keys(at))
}

// ownersInSlot are all that were seen to have the leaf in the slot.
func (m *slowModel) ownersInSlot(s *slowSlot, l *wire.Leaf) map[string]bool {
	out := map[string]bool{}
	for _, at := range m.edges(s) {
		for _, h := range s.record.Holds {
			if id := m.owner(h); h.Leaf == l.Id && slowSeen(s.batch, at) && m.heldBy(s, l, id, at) {
				out[id] = true
			}
		}
	}
	return out
}

func (m *slowModel) coversAll(s *slowSlot, l *wire.Leaf, owner string) bool {
	for _, at := range m.edges(s) {
		if slowSeen(s.batch, at) && !m.heldBy(s, l, owner, at) {
			return false
		}
	}
	return true
}

func slowValue(v *float64, lo, hi float64) (float64, bool) {
	if v == nil || !(*v >= lo && *v <= hi) {
		return 0, false
	}
	return *v, true
}

func slowActivity(l *wire.Leaf) (float64, bool) {
	if a, ok := slowValue(l.SmActive, 0, 1); ok {
		return a, true
	}
	return slowValue(l.GrEngineActive, 0, 1)
}

func slowUtilisation(g *wire.Gpu, l *wire.Leaf) (float64, bool) {
	if g.Mig {
		return 0, false
	}
	return slowValue(l.GpuUtil, 0, 100)
}

// slowMaxWatts is the end of the range of power readings.
const slowMaxWatts = 3000

// slowPower answers whether the board's power is a signal, and quiet.
func slowPower(g *wire.Gpu) (quiet, ok bool) {
	watts, ok := slowValue(g.PowerWatts, 0, slowMaxWatts)
	idle, known := slowValue(g.IdleWatts, 0, slowMaxWatts)
	if !ok || !known || idle == 0 || g.EnergyMj != nil && *g.EnergyMj == 0 {
		return false, false
	}
	return watts <= idle+60, true // an open CUDA context takes up to 50 W
}

func slowWorks(g *wire.Gpu, l *wire.Leaf) bool {
	if a, ok := slowActivity(l); ok {
		return a >= 0.005
	}
	u, ok := slowUtilisation(g, l)
	return ok && u > 0
}

func slowRests(g *wire.Gpu, l *wire.Leaf) bool {
	a, aValid := slowActivity(l)
	u, uValid := slowUtilisation(g, l)
	pQuiet, pValid := slowPower(g)
	if g.Mig {
		lives := pValid && pQuiet
		for _, other := range g.Leaves {
			if b, ok := slowActivity(other); other.Id != l.Id && ok && b >= 0.005 {
				lives = true
			}
		}
		return aValid && a < 0.005 && lives
	}
	valid := 0
	for _, v := range []bool{aValid, uValid, pValid} {
		if v {
			valid++
		}
	}
	return valid >= 2 && !(aValid && a >= 0.005) && !(uValid && u > 0) && !(pValid && !pQuiet)
}
