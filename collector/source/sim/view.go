package sim

// view is what is observable of a node in one slot, given its failures.
type view struct {
	slot     span
	observed []span // observed parts of the slot
	energy   span   // between the counter's last two readings
	down     bool   // the node was off throughout
	failed   bool   // attribution
	outages  []outage
}

// newView applies the node's outages of the day. Without any, the whole slot is observed and energy is read at both
// ends.
func newView(slot span, outages []outage) view {
	v := view{slot: slot, observed: []span{slot}, energy: slot, outages: outages}
	for _, o := range outages {
		switch o.Kind {
		case nodeReboot, exporterGap:
			v.observed = without(v.observed, o.span)
			v.down = v.down || o.Kind == nodeReboot && !o.clip(slot).empty()
		case attributionFailure:
			v.failed = v.failed || !o.clip(slot).empty()
		}
	}
	v.down = v.down && len(v.observed) == 0
	v.energy.from = lastSeen(slot.from, outages)
	v.energy.to = max(lastSeen(slot.to, outages), v.energy.from)
	return v
}

// lastSeen is the last instant up to t at which the node's counters were read.
func lastSeen(t int64, outages []outage) int64 {
	for again := true; again; {
		again = false
		for _, o := range outages {
			blind := o.Kind == nodeReboot || o.Kind == exporterGap
			if blind && o.from < t && t <= o.to {
				t, again = o.from, true
			}
		}
	}
	return t
}

func (v *view) sees(t int64) bool { return anyHas(v.observed, t) }

func (v *view) observedMS() int64 {
	sum := int64(0)
	for _, o := range v.observed {
		sum += o.len()
	}
	return sum
}

// sight is what is observable of one board in one slot.
type sight struct {
	lost, unhealthy bool
	reset           bool
	energy          []span // where the counter moved between its readings
	busy            []span // the part of it in which work can have been done
	seen            []span // the part of the observed time in which work can have been done
	counterSpan     span
}

func (v *view) sight(board int) sight {
	if len(v.outages) == 0 {
		return sight{counterSpan: v.slot, energy: v.observed, busy: v.observed, seen: v.observed}
	}
	s := sight{counterSpan: v.energy, energy: []span{v.energy}, busy: []span{v.energy}, seen: v.observed}
	for _, o := range v.outages {
		mine := o.Board == board
		switch {
		case o.Kind == nodeReboot, o.Kind == gpuLost && mine:
			s.lost = s.lost || o.Kind == gpuLost && !o.clip(v.slot).empty()
			s.energy, s.busy, s.seen = without(s.energy, o.span), without(s.busy, o.span), without(s.seen, o.span)
		case o.Kind == gpuUnhealthy && mine:
			s.unhealthy = s.unhealthy || !o.clip(v.slot).empty()
			s.busy, s.seen = without(s.busy, o.span), without(s.seen, o.span)
		case o.Kind == energyReset && mine:
		default:
			continue
		}
		if v.energy.has(o.to) { // each of these ends with a counter at zero
			s.reset = true
			before := span{-1 << 62, o.to}
			s.energy, s.busy = without(s.energy, before), without(s.busy, before)
			s.counterSpan.from = max(s.counterSpan.from, o.to)
		}
	}
	return s
}
