package meter_test

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/gputally/gputally/internal/wire"
)

// slowPart is one party of a largest-remainder step: an owner, or the
// platform, which is last among equals.
type slowPart struct {
	owner    string
	platform bool
	bucket   string
	exact    *big.Rat
	whole    int64
	a        *big.Rat // A of the leaf, nil: absent
}

// slowParties are the parties of a leaf in a slot.
type slowParties struct{ parts []*slowPart }

func slowParty(in map[slowLeaf]*slowParties, leaf slowLeaf) *slowParties {
	if in[leaf] == nil {
		in[leaf] = &slowParties{}
	}
	return in[leaf]
}

func (p *slowParties) add(like slowPart, amount *big.Rat) {
	for _, q := range p.parts {
		if q.owner == like.owner && q.platform == like.platform && q.bucket == like.bucket {
			q.exact.Add(q.exact, amount)
			return
		}
	}
	like.exact = new(big.Rat).Set(amount)
	p.parts = append(p.parts, &like)
}

// addUse adds a stretch of a leaf: slices × ms × share to each owner.
func (p *slowParties) addUse(leaf slowLeaf, use *slowUse, ms int64) {
	rest := big.NewRat(leaf.slices*ms, 1)
	for id, share := range use.share {
		part := new(big.Rat).Mul(big.NewRat(leaf.slices*ms, 1), share)
		rest.Sub(rest, part)
		if use.what[id] == "unhealthy" {
			p.add(slowPart{platform: true, bucket: "unhealthy", a: use.a}, part)
			continue
		}
		p.add(slowPart{owner: id, bucket: use.what[id], a: use.a}, part)
	}
	p.add(slowPart{platform: true, bucket: use.rest, a: use.a}, rest)
}

// book rounds a leaf's slot and books it.
func (m *slowModel) book(uuid string, s *slowSlot, p *slowParties) {
	slowRound(s.start, p.parts)
	for _, q := range p.parts {
		var u usage
		switch q.bucket {
		case "active":
			u.active = q.whole
		case "idle":
			u.idle = q.whole
		case "unproven":
			u.unproven = q.whole
		case "free":
			u.free = q.whole
		case "unhealthy":
			u.unhealthy = q.whole
		case "unobserved":
			u.unobserved = q.whole
		}
		m.add(uuid, s.start, m.payer(q), u)
	}
}

func (m *slowModel) payer(p *slowPart) string {
	if p.platform {
		return ""
	}
	return tenantOf(m.owners[p.owner])
}

// slowRound is the largest-remainder step (R12).
func slowRound(start int64, parts []*slowPart) {
	sum, left := new(big.Rat), int64(0)
	for _, p := range parts {
		sum.Add(sum, p.exact)
		p.whole = new(big.Int).Div(p.exact.Num(), p.exact.Denom()).Int64()
		left -= p.whole
	}
	if !sum.IsInt() {
		panic("parties don't sum to a whole number: " + sum.String())
	}
	left += sum.Num().Int64()
	last := func(p *slowPart) int {
		if p.platform {
			return 1
		}
		return 0
	}
	remainder := func(p *slowPart) *big.Rat { return new(big.Rat).Sub(p.exact, big.NewRat(p.whole, 1)) }
	order := slices.Clone(parts)
	slices.SortFunc(order, func(a, b *slowPart) int {
		return cmp.Or(remainder(b).Cmp(remainder(a)), cmp.Compare(last(a), last(b)), cmp.Compare(slowLuck(start, a.owner), slowLuck(start, b.owner)))
	})
	for _, p := range order[:left] {
		p.whole++
	}
}

// energy is R16, a function of the batch alone but for the hour's capacity.
// settled are the slot's parties by leaf, after their rounding.
func (m *slowModel) energy(uuid string, s *slowSlot, settled map[slowLeaf]*slowParties) {
	if s.record == nil || s.record.EnergyMj == nil {
		return
	}
	g, total := s.record, *s.record.EnergyMj
	span := m.slotMS
	if g.EnergySpanMs != nil {
		span = *g.EnergySpanMs
	}
	if float64(total)/1000 > slowMaxWatts*(float64(span)/1000+2) { // joules, of counters read 2 s late
		return
	}
	if g.EnergyReset || 2*span > 3*m.slotMS {
		m.add(uuid, s.start, "(unattributed)", usage{energy: total})
		return
	}
	parties := []*slowPart{}
	if !g.Lost && s.batch.Attribution != wire.Attribution_ATTRIBUTION_FAILED && !m.beyond(s) {
		parties = slowSeenParties(s, settled)
	}
	idle := min(slowIdleEnergy(g, span), total)
	byTime := make([]*big.Rat, len(parties))
	for i, p := range parties {
		byTime[i] = big.NewRat(p.whole, 1)
	}
	for _, p := range parties {
		p.exact = new(big.Rat)
	}
	rest := new(big.Rat)
	slowSplit(idle, byTime, parties, rest)
	slowSplit(total-idle, slowByWork(parties), parties, rest)
	parties = append(parties, &slowPart{platform: true, exact: rest})
	slowRound(s.start, parties)
	for _, p := range parties {
		m.add(uuid, s.start, m.payer(p), usage{energy: p.whole})
	}
}

// slowSeenParties are all that divide the observed time of a slot: each owner
// on each leaf, what is left of each leaf, and what no leaf covers.
func slowSeenParties(s *slowSlot, settled map[slowLeaf]*slowParties) []*slowPart {
	var out []*slowPart
	for _, p := range settled {
		for _, q := range p.parts {
			part := *q
			out = append(out, &part)
		}
	}
	stranded := &slowPart{platform: true}
	for _, c := range s.cells {
		if c.what == slowAll {
			stranded.whole += (slowSlices(s.record) - c.covered()) * c.ms()
		}
	}
	return append(out, stranded)
}

// slowByWork is slice-ms × A of held time, or slice-ms alone where one of
// those A is absent or all are zero.
func slowByWork(parties []*slowPart) []*big.Rat {
	byWork, byHeld := make([]*big.Rat, len(parties)), make([]*big.Rat, len(parties))
	absent, worked := false, false
	for i, p := range parties {
		byWork[i], byHeld[i] = new(big.Rat), new(big.Rat)
		if p.platform {
			continue
		}
		byHeld[i].SetInt64(p.whole)
		if p.a == nil {
			absent = true
			continue
		}
		byWork[i].Mul(byHeld[i], p.a)
		worked = worked || byWork[i].Sign() > 0
	}
	if absent || !worked {
		return byHeld
	}
	return byWork
}

// slowIdleEnergy is idle_watts × the time covered, in whole millijoules.
func slowIdleEnergy(g *wire.Gpu, span int64) int64 {
	watts, ok := slowValue(g.IdleWatts, 0, slowMaxWatts)
	if !ok {
		return 0
	}
	exact := new(big.Rat).Mul(new(big.Rat).SetFloat64(watts), big.NewRat(span, 1))
	exact.Add(exact, big.NewRat(1, 2))
	return new(big.Int).Div(exact.Num(), exact.Denom()).Int64()
}

// slowSplit adds an amount to the parties by weight; where no weight is, to
// the rest, which is the platform's.
func slowSplit(amount int64, weights []*big.Rat, parties []*slowPart, rest *big.Rat) {
	sum := new(big.Rat)
	for _, w := range weights {
		sum.Add(sum, w)
	}
	if sum.Sign() == 0 {
		rest.Add(rest, big.NewRat(amount, 1))
		return
	}
	for i, w := range weights {
		part := new(big.Rat).Mul(big.NewRat(amount, 1), w)
		parties[i].exact.Add(parties[i].exact, part.Quo(part, sum))
	}
}
