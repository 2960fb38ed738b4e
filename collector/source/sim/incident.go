package sim

import (
	"cmp"
	"fmt"
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

// Codes of an incident's events.
const (
	IncidentStarts = 1
	IncidentEnds   = 2
)

// occurrence is a rule in one month.
type occurrence struct {
	span
	rule  *IncidentRule
	lanes []int
	seed  uint64
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
		for _, lane := range o.lanes {
			b, l := s.fleet.at(lane)
			if !slices.Contains(in.GPUs, b.uuid) {
				in.GPUs = append(in.GPUs, b.uuid)
			}
			if len(o.lanes) == 1 && b.MIG {
				in.Leaf = l.id
			}
		}
		out = append(out, in)
	}
	return out
}

func (f *fleet) at(lane int) (*board, *leaf) {
	h := f.homes[lane]
	b := &f.nodes[h.node].boards[h.board]
	return b, &b.leafs[h.leaf]
}

// occurrences lists what touches a time. A rule's day is at most 6 days off
// its month and it lasts at most 7, so the neighbouring months are enough.
func (s *Source) occurrences(within span) []occurrence {
	var out []occurrence
	first := time.UnixMilli(within.from).UTC()
	month := time.Date(first.Year(), first.Month()-1, 1, 0, 0, 0, 0, time.UTC)
	for ; month.UnixMilli() < within.to+31*dayMS; month = month.AddDate(0, 1, 0) {
		for i := range s.config.Incidents {
			if o := s.occurrence(i, month); !o.clip(within).empty() {
				out = append(out, o)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b occurrence) int { return cmp.Compare(a.from, b.from) })
	return out
}

func (s *Source) occurrence(i int, month time.Time) occurrence {
	r := &s.config.Incidents[i]
	y, m, _ := month.Date()
	toSaturday := (int(time.Saturday) - int(month.Weekday()) + 7) % 7
	start := s.tenants[r.Tenant].localMS(y, m, 1+toSaturday+7*(r.Saturday-1)+r.DayOffset, r.At)
	seed := derive(derive(s.seed, int64(i)), month.UnixMilli())
	return occurrence{span{start, start + r.Length.Milliseconds()}, r, s.incidentLanes[i], seed}
}

// checkIncidents refuses rules that claim a leaf at the same time: the labels
// would not be the truth.
func (s *Source) checkIncidents() error {
	all := s.occurrences(s.window)
	for i, a := range all {
		for _, b := range all[:i] {
			if a.clip(b.span).empty() {
				continue
			}
			for _, lane := range a.lanes {
				if slices.Contains(b.lanes, lane) {
					g, l := s.fleet.at(lane)
					return fmt.Errorf("validate simulator: incidents %q and %q both claim leaf %s of %s at %s",
						b.rule.Label, a.rule.Label, l.id, g.uuid, time.UnixMilli(a.from).UTC().Format(time.RFC3339))
				}
			}
		}
	}
	return nil
}

// run is what the occurrence puts on a lane: one owner per node.
func (o *occurrence) run(s *Source, lane int) run {
	n := &s.fleet.nodes[s.fleet.homes[lane].node]
	t := s.tenants[o.rule.Tenant]
	seed := deriveName(o.seed, n.Name)
	name, l := "forgotten", load{kind: hung, seed: seed}
	if o.rule.Kind == OffHoursSpike {
		name, l = "burst", load{kind: spike, seed: derive(seed, int64(lane)), base: 900_000}
	}
	return run{o.span, newOwner(t, n.Scheduler, name, t.Projects[len(t.Projects)-1], seed), l}
}
