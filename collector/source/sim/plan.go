package sim

import (
	"cmp"
	"slices"
	"time"
)

// plan is everything that happens on one UTC day: a pure value, shared by reads.
type plan struct {
	lanes     [][]run // by lane, ascending and disjoint
	outages   [][]outage
	incidents []occurrence
	migUUIDs  []string // by lane; empty: a whole GPU
}

// outage is a failure with its time.
type outage struct {
	span
	*failure
}

// planOf returns the plan of the UTC day that begins at dayFrom.
func (s *Source) planOf(dayFrom int64) *plan {
	d := span{dayFrom, dayFrom + dayMS}
	// Runs last at most a week, so only these may have interrupted one.
	near := s.occurrences(span{d.from - 8*dayMS, d.to + 8*dayMS})
	byLane := make([][]occurrence, len(s.fleet.homes))
	for _, o := range near {
		for _, lane := range o.rule.lanes {
			byLane[lane] = append(byLane[lane], o)
		}
	}
	p := &plan{
		lanes:    make([][]run, len(s.fleet.homes)),
		outages:  s.outages(d),
		migUUIDs: make([]string, len(s.fleet.homes)),
	}
	open := make(map[*tenant][]span, len(s.tenants))
	for _, t := range s.tenants {
		open[t] = t.open(d)
	}
	for i := range s.units {
		s.layUnit(p, &s.units[i], d, open[s.units[i].tenant], byLane)
	}
	for _, o := range near {
		if o.to < d.from || o.from >= d.to { // one that ends at the day's start has its event there
			continue
		}
		p.incidents = append(p.incidents, o)
		for _, lane := range o.rule.lanes {
			p.lanes[lane] = append(p.lanes[lane], o.run(s, lane))
		}
	}
	for lane := range p.lanes {
		s.finish(p, lane, d)
	}
	return p
}

// layUnit places a unit's runs on its lanes. If an incident takes the lane the run ends, and the rest of it after the
// incident gets a requeued owner.
func (s *Source) layUnit(p *plan, u *unit, d span, open []span, byLane [][]occurrence) {
	for _, sh := range u.shifts(d, open) {
		owner, load := u.owner(sh.seed), u.load(sh.seed, open)
		for _, lane := range u.lanes {
			load.seed = derive(sh.seed, int64(lane))
			rest := sh.span
			by := owner
			for _, o := range byLane[lane] {
				if o.clip(rest).empty() {
					continue
				}
				if head := (span{rest.from, o.from}); !head.empty() {
					p.lanes[lane] = append(p.lanes[lane], run{head, by, load})
				}
				rest.from = o.to
				by = u.owner(derive(sh.seed, int64(o.seed>>1)))
			}
			if !rest.empty() {
				p.lanes[lane] = append(p.lanes[lane], run{rest, by, load})
			}
		}
	}
}

// finish removes what doesn't overlap the day or the instances' lifetime, and sorts.
func (s *Source) finish(p *plan, lane int, d span) {
	b, l := s.fleet.at(lane)
	life := b.exists(d.from)
	if b.MIG {
		p.migUUIDs[lane] = l.migUUID(life.from)
	}
	kept := p.lanes[lane][:0]
	for _, r := range p.lanes[lane] {
		r.span = r.clip(life)
		if !r.clip(d).empty() {
			kept = append(kept, r)
		}
	}
	slices.SortFunc(kept, func(a, b run) int { return cmp.Compare(a.from, b.from) })
	p.lanes[lane] = kept
}

// outages returns, by node, the failures that overlap the day or end at its start.
func (s *Source) outages(d span) [][]outage {
	out := make([][]outage, len(s.fleet.nodes))
	for i := range s.failures {
		f := &s.failures[i]
		for _, from := range []int64{d.from - dayMS, d.from} {
			if time.UnixMilli(from).UTC().Day() != f.Day {
				continue
			}
			start := from + f.At.Milliseconds()
			o := outage{span{start, start + f.Length.Milliseconds()}, f}
			if o.from < d.to && o.to >= d.from {
				n := s.fleet.nodeOf(f.Node)
				out[n] = append(out[n], o)
			}
		}
	}
	return out
}

// plan returns the plan of the day that contains a time. The cache has pure values only, so evicting one costs only
// time.
func (s *Source) plan(at int64) *plan {
	from := floorDiv(at, dayMS) * dayMS
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.plans[from]; ok {
		return p
	}
	const keep = 64 // two months and a bit
	if len(s.plans) >= keep {
		clear(s.plans)
	}
	p := s.planOf(from)
	s.plans[from] = p
	s.metrics.plans.Inc()
	return p
}
