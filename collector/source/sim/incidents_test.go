package sim

import (
	"slices"
	"time"
)

// Incident is the ground truth of one planted finding.
type Incident struct {
	Kind, Tenant string
	GPUs         []string // UUIDs
	Leaf         string   // leaf id, where the incident is on part of a board
	Start, End   time.Time
	Label        string
}

// Incidents lists the incidents that touch [from, to), ordered by start.
func (s *Source) Incidents(from, to time.Time) []Incident {
	within := span{from.UnixMilli(), to.UnixMilli()}
	var out []Incident
	for _, o := range s.occurrences(within) {
		in := Incident{
			Kind: o.rule.Kind, Tenant: o.rule.Tenant, Label: o.rule.Label,
			Start: time.UnixMilli(o.from).UTC(), End: time.UnixMilli(o.to).UTC(),
		}
		for _, lane := range o.rule.lanes {
			b, l := s.fleet.at(lane)
			if !slices.Contains(in.GPUs, b.uuid) {
				in.GPUs = append(in.GPUs, b.uuid)
			}
			if len(o.rule.lanes) == 1 && b.MIG {
				in.Leaf = l.id
			}
		}
		out = append(out, in)
	}
	return out
}
