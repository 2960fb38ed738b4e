package sim

import "github.com/gputally/gputally/internal/wire"

// events returns the observed events of the node in the slot: failures, and the labels of incidents at their start
// and end.
func (s *Source) events(p *plan, v *view, ni int) []*wire.Event {
	var out []*wire.Event
	n := &s.fleet.nodes[ni]
	for _, o := range v.outages {
		out = append(out, failureEvents(v, &o, n)...)
	}
	for i := range p.incidents {
		out = append(out, s.incidentEvents(v, &p.incidents[i], ni)...)
	}
	return out
}

func failureEvents(v *view, o *outage, n *node) []*wire.Event {
	var out []*wire.Event
	add := func(at int64, kind string, code int64, detail string) {
		e := &wire.Event{AtMs: at - v.slot.from, Kind: kind, Code: code, Detail: detail}
		if o.Kind != nodeReboot {
			e.Gpu = n.boards[o.Board].uuid
		}
		if v.sees(at) {
			out = append(out, e)
		}
	}
	switch o.Kind {
	case gpuLost, gpuUnhealthy:
		if o.XID != 0 {
			add(o.from, "xid", o.XID, "")
		}
		if o.Kind == gpuLost {
			add(o.from, "lost", 0, "")
		}
		add(o.to, "reset", 0, "gpu reset")
	case nodeReboot:
		add(o.to, "reset", 0, "node reboot")
	case energyReset:
		add(o.from, "reset", 0, "driver reload")
	}
	return out
}

// incidentEvents labels every leaf of the incident on this node; the code distinguishes start and end.
func (s *Source) incidentEvents(v *view, o *occurrence, ni int) []*wire.Event {
	var out []*wire.Event
	for _, edge := range []struct{ at, code int64 }{{o.from, IncidentStarts}, {o.to, IncidentEnds}} {
		if !v.sees(edge.at) {
			continue
		}
		for _, lane := range o.rule.lanes {
			if s.fleet.homes[lane].node != ni {
				continue
			}
			b, l := s.fleet.at(lane)
			out = append(out, &wire.Event{
				AtMs: edge.at - v.slot.from, Gpu: b.uuid, Leaf: l.id,
				Kind: "incident", Code: edge.code, Detail: o.rule.Label,
			})
		}
	}
	return out
}
