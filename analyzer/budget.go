package analyzer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gputally/gputally/analyzer/episode"
)

// Alerts bounds how many findings become alerts. The others are in the table only.
type Alerts struct {
	// PerWeek is how many a site gets in any seven days, PerTenantWeek how many about one tenant, or of one kind about
	// devices and telemetry.
	PerWeek       int `yaml:"per_week"`
	PerTenantWeek int `yaml:"per_tenant_week"`
	// Severity has the costs per day from which a finding is low, medium, high and critical. Cheaper ones are no alerts.
	Severity episode.Limits `yaml:"severity"`
}

// DefaultAlerts are five a week, one a week about a tenant.
func DefaultAlerts() Alerts {
	return Alerts{PerWeek: 5, PerTenantWeek: 1, Severity: episode.DefaultLimits()}
}

// Validate names the first field that makes no sense.
func (a Alerts) Validate() error {
	if a.PerWeek < 0 || a.PerWeek > 10_000 {
		return fmt.Errorf("per_week %d: want 0 to 10000", a.PerWeek)
	}
	if a.PerTenantWeek < 0 || a.PerTenantWeek > 10_000 {
		return fmt.Errorf("per_tenant_week %d: want 0 to 10000", a.PerTenantWeek)
	}
	if err := a.Severity.Validate(); err != nil {
		return fmt.Errorf("severity: %w", err)
	}
	return nil
}

const alertWeek = 7 * 24 * time.Hour

// rate sets the severity of every finding. A suspected one is a step lower; one of a newcomer a step higher: nothing
// is known of what it may do.
func (a Alerts) rate(episodes []episode.Episode) {
	for i := range episodes {
		e := &episodes[i]
		step := 0
		if e.Grade == episode.Suspected {
			step--
		}
		if e.New {
			step++
		}
		e.Rate(a.Severity, step, e.Known)
	}
}

// alerted is a finding that was let through.
type alerted struct {
	id       string
	at       time.Time
	about    string
	severity episode.Severity
}

// about is the tenant; of a finding about devices or telemetry, the kind.
func about(e *episode.Episode) string {
	if e.Grade == episode.None {
		return "\x00" + string(e.Kind)
	}
	return e.Tenant
}

// let sets Alerted of the findings that the budget lets through. At each time at which a finding reaches a severity, or
// a place becomes free again, the dearest of those that still go on is let through first. One that is more severe than
// all alerts of the last seven days is let through without a place: a place that went to a lesser one must not hide it.
// Findings that a pattern or an outage stands for are left out from when it was known, unless they are more severe, and
// so are muted ones. What was let through by an earlier run, as published, stays so and takes its place.
func (a Alerts) let(episodes []episode.Episode, given []alerted) {
	parents, already := map[string]*episode.Episode{}, map[string]time.Time{}
	for i := range episodes {
		if e := &episodes[i]; e.Kind == episode.IdlePattern || e.Kind == episode.Unobserved && e.Parent == "" {
			parents[e.ID()] = e
		}
	}
	b := budget{Alerts: a, ids: map[*episode.Episode]string{}}
	var reached []event
	for i := range given {
		already[given[i].id] = given[i].at
		reached = append(reached, event{at: given[i].at, given: &given[i]})
	}
	for i := range episodes {
		e := &episodes[i]
		id := e.ID()
		if e.Alerted = already[id]; !e.Alerted.IsZero() {
			continue
		}
		b.ids[e] = id
		if e.Silenced {
			continue
		}
		parent := parents[e.Parent]
		for severity := episode.Low; int(severity) < len(e.Reached); severity++ {
			at := e.Reached[severity]
			stands := parent != nil && !e.Start.Before(parent.Known) && parent.Reached.At(at) >= severity
			if !at.IsZero() && !stands {
				reached = append(reached, event{at: at, e: e})
			}
		}
	}
	slices.SortStableFunc(reached, func(x, y event) int { return x.at.Compare(y.at) })
	for len(reached) > 0 || len(b.free) > 0 {
		now := b.next(reached)
		for len(reached) > 0 && reached[0].at.Equal(now) {
			b.add(reached[0])
			reached = reached[1:]
		}
		b.at(now)
	}
}

// event is a finding that reaches a severity, or one that an earlier run let through.
type event struct {
	at    time.Time
	e     *episode.Episode
	given *alerted
}

// budget lets findings through in the order of time.
type budget struct {
	Alerts
	ids     map[*episode.Episode]string
	waiting []*episode.Episode // for a place
	recent  []alerted
	free    []time.Time // when places become free again, ascending
}

// next is the time of the next event.
func (b *budget) next(reached []event) time.Time {
	if len(b.free) == 0 || len(reached) > 0 && reached[0].at.Before(b.free[0]) {
		return reached[0].at
	}
	return b.free[0]
}

func (b *budget) add(ev event) {
	switch {
	case ev.given != nil:
		b.recent, b.free = append(b.recent, *ev.given), append(b.free, ev.at.Add(alertWeek))
	case ev.e.Alerted.IsZero() && !slices.Contains(b.waiting, ev.e):
		b.waiting = append(b.waiting, ev.e)
	}
}

// at lets findings through at one time.
func (b *budget) at(now time.Time) {
	past := func(t time.Time) bool { return !t.After(now) }
	b.free = slices.DeleteFunc(b.free, past)
	b.recent = slices.DeleteFunc(b.recent, func(r alerted) bool { return past(r.at.Add(alertWeek)) })
	slices.SortFunc(b.waiting, func(x, y *episode.Episode) int {
		return cmp.Or(cmp.Compare(y.Reached.At(now), x.Reached.At(now)), x.Start.Compare(y.Start), cmp.Compare(b.ids[x], b.ids[y]))
	})
	before := len(b.recent)
	b.waiting = slices.DeleteFunc(b.waiting, func(e *episode.Episode) bool {
		if e.End.Before(now.Add(-time.Hour)) {
			return true // it ended before there was a place
		}
		severity := e.Reached.At(now)
		if !b.takes(e, severity) {
			return false
		}
		e.Alerted = now
		b.recent = append(b.recent, alerted{b.ids[e], now, about(e), severity})
		return true
	})
	if len(b.recent) > before {
		b.free = append(b.free, now.Add(alertWeek))
	}
}

// takes reports whether there is a place at the site, and about the tenant or kind.
func (b *budget) takes(e *episode.Episode, severity episode.Severity) bool {
	site, same := 0, 0
	more := [2]bool{severity > episode.Low, severity > episode.Low} // severe than any, at the site and of the same
	for _, r := range b.recent {
		site++
		more[0] = more[0] && severity > r.severity
		if r.about == about(e) {
			same++
			more[1] = more[1] && severity > r.severity
		}
	}
	return (site < b.PerWeek || more[0] && b.PerWeek > 0) &&
		(same < b.PerTenantWeek || more[1] && b.PerTenantWeek > 0)
}
