package sim

import (
	"cmp"
	"slices"
	"time"
)

// Codes of an incident's events.
const (
	IncidentStarts = 1
	IncidentEnds   = 2
)

// incident is a rule with its lanes.
type incident struct {
	incidentRule
	lanes []int
}

// occurrence is a rule in one month.
type occurrence struct {
	span
	rule *incident
	seed uint64
}

// occurrences returns those that overlap a time. A rule's day is at most 6 days outside its month and it lasts at
// most 7, so the neighbouring months are enough.
func (s *Source) occurrences(within span) []occurrence {
	var out []occurrence
	first := time.UnixMilli(within.from).UTC()
	month := time.Date(first.Year(), first.Month()-1, 1, 0, 0, 0, 0, time.UTC)
	for ; month.UnixMilli() < within.to+31*dayMS; month = month.AddDate(0, 1, 0) {
		for i := range s.incidents {
			if o := s.occurrence(i, month); !o.clip(within).empty() {
				out = append(out, o)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b occurrence) int { return cmp.Compare(a.from, b.from) })
	return out
}

func (s *Source) occurrence(i int, month time.Time) occurrence {
	r := &s.incidents[i]
	y, m, _ := month.Date()
	toSaturday := (int(time.Saturday) - int(month.Weekday()) + 7) % 7
	start := s.tenants[r.Tenant].localMS(y, m, 1+toSaturday+7*(r.Saturday-1)+r.DayOffset, r.At)
	seed := derive(derive(s.seed, int64(i)), month.UnixMilli())
	return occurrence{span{start, start + r.Length.Milliseconds()}, r, seed}
}

// run is the occurrence's run on a lane: one owner per node.
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
