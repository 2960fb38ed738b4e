package offhours

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/analyzer/tail"
)

// Use is the ledger's time of one workload in one UTC hour, in slice-ms.
type Use struct {
	Cluster, Tenant, Project, User, Workload string
	Start                                    time.Time
	Model, Profile                           string
	Slices                                   uint16 // of one GPU: what slice-ms are divided by
	ProfileSlices                            uint16
	ActiveSliceMS, HeldSliceMS               uint64
}

// Coverage are, by cluster, the hours of which the ledger observed enough to conclude
// that a tenant held nothing.
type Coverage map[string][]time.Time

// group is whose hours are judged together: a tenant, one of its projects or users.
type group struct{ cluster, tenant, project, user string }

// line is a group's uses, by hour.
type line struct {
	group
	measure string // what is compared: active time, or held time where no activity is known
	first   time.Time
	hours   [][]Use
	seen    []bool
	cal     *calendar
}

// Find returns the spikes of all tenants, sorted. Uses may come in any order. They should
// include every hour in which a tenant held anything. A spike of a tenant hides those of
// its projects and users at the same time.
func Find(config Config, rates episode.Rates, uses []Use, coverage Coverage) ([]episode.Episode, error) {
	lines, err := makeLines(config, uses, coverage)
	if err != nil {
		return nil, err
	}
	peers := poolResiduals(config, lines)
	var found []episode.Episode
	for _, l := range lines {
		found = append(found, l.find(config, rates, peers)...)
	}
	found = slices.DeleteFunc(found, func(e episode.Episode) bool { return hidden(e, found) })
	episode.Sort(found)
	return found, nil
}

// hidden reports whether a wider group has a spike at the same time.
func hidden(e episode.Episode, among []episode.Episode) bool {
	return slices.ContainsFunc(among, func(o episode.Episode) bool {
		wider := o.Project == "" && o.User == "" && e.Project+e.User != "" || o.User == "" && o.Project != "" && e.User != ""
		return wider && o.Cluster == e.Cluster && o.Tenant == e.Tenant && o.Overlaps(e.Start, e.End)
	})
}

func makeLines(config Config, uses []Use, coverage Coverage) ([]*line, error) {
	lines := map[group]*line{}
	last := map[group]time.Time{}
	calendars := map[string]*calendar{}
	for _, u := range uses {
		for _, g := range groupsOf(u) {
			l := lines[g]
			if l == nil {
				cal, err := config.calendarFor(calendars, u.Tenant)
				if err != nil {
					return nil, err
				}
				l = &line{group: g, measure: "held", first: u.Start, cal: cal}
				lines[g] = l
			}
			if u.Start.Before(l.first) {
				l.first = u.Start
			}
			if u.Start.After(last[g]) {
				last[g] = u.Start
			}
			if u.ActiveSliceMS > 0 {
				l.measure = "active"
			}
		}
	}
	for g, l := range lines {
		n := int(last[g].Sub(l.first)/time.Hour) + 1
		l.hours, l.seen = make([][]Use, n), make([]bool, n)
		for _, at := range coverage[g.cluster] {
			if i := int(at.Sub(l.first) / time.Hour); !at.Before(l.first) && i < n {
				l.seen[i] = true
			}
		}
	}
	for _, u := range uses {
		for _, g := range groupsOf(u) {
			l := lines[g]
			i := int(u.Start.Sub(l.first) / time.Hour)
			l.hours[i] = append(l.hours[i], u)
		}
	}
	all := make([]*line, 0, len(lines))
	for _, l := range lines {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *line) int {
		return slices.CompareFunc([]string{a.cluster, a.tenant, a.project, a.user},
			[]string{b.cluster, b.tenant, b.project, b.user}, strings.Compare)
	})
	return all, nil
}

// groupsOf are the groups that a use belongs to.
func groupsOf(u Use) []group {
	groups := []group{{cluster: u.Cluster, tenant: u.Tenant}}
	if u.Project != "" {
		groups = append(groups, group{cluster: u.Cluster, tenant: u.Tenant, project: u.Project})
	}
	if u.User != "" {
		groups = append(groups, group{cluster: u.Cluster, tenant: u.Tenant, user: u.User})
	}
	return groups
}

// amount is what a use counts, in slice-ms.
func (l *line) amount(u *Use) uint64 {
	if l.measure == "active" {
		return u.ActiveSliceMS
	}
	return u.HeldSliceMS
}

// held are an hour's uses in GPU-hours, one for each workload and user.
func (l *line) held(i int) []Held {
	sums := map[Held]float64{}
	for _, u := range l.hours[i] {
		hours, _ := episode.GPUHours(l.amount(&u), u.Slices).Float64()
		sums[Held{Workload: u.Workload, User: u.User}] += hours
	}
	out := make([]Held, 0, len(sums))
	for h, hours := range sums {
		h.GPUHours = hours
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b Held) int { return cmp.Or(cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.User, b.User)) })
	return out
}

// judged calls take with the verdict on each hour.
func (l *line) judged(config Config, peers func(at time.Time) *tail.Tail, take func(i int, v Verdict)) *Series {
	s := NewSeries(config, l.cal)
	for i := range l.hours {
		at := l.first.Add(time.Duration(i) * time.Hour)
		take(i, s.Add(at, l.held(i), l.seen[i], func() *tail.Tail { return peers(at) }))
	}
	return s
}

// poolResiduals returns, for a time, the tail of the residuals of all tenants that were
// known for long enough, of the 28 days before that day.
func poolResiduals(config Config, lines []*line) func(time.Time) *tail.Tail {
	byDay := map[int64][]float64{}
	for _, l := range lines {
		if l.project != "" || l.user != "" {
			continue
		}
		l.judged(config, func(time.Time) *tail.Tail { return nil }, func(i int, v Verdict) {
			if v.Off && l.seen[i] && i >= newcomer && !v.Flagged {
				day := l.first.Add(time.Duration(i)*time.Hour).Unix() / 86400
				byDay[day] = append(byDay[day], v.Observed-v.Expected)
			}
		})
	}
	fitted := map[int64]*tail.Tail{}
	return func(at time.Time) *tail.Tail {
		day := at.Unix() / 86400
		if t, done := fitted[day]; done {
			return t
		}
		var sample []float64
		for d := day - 28; d < day; d++ {
			sample = append(sample, byDay[d]...)
		}
		fitted[day] = nil
		if len(sample) >= 500 {
			t := tail.New(sample, unit)
			fitted[day] = &t
		}
		return fitted[day]
	}
}

// find joins flagged hours to episodes.
func (l *line) find(config Config, rates episode.Rates, peers func(time.Time) *tail.Tail) (found []episode.Episode) {
	var open []Verdict
	begin := 0
	closed := func() {
		if e, ok := l.episode(config, rates, begin, open); ok {
			found = append(found, e)
		}
		open = nil
	}
	l.judged(config, peers, func(i int, v Verdict) {
		if !v.Flagged {
			closed()
			return
		}
		if len(open) == 0 {
			begin = i
		}
		open = append(open, v)
	})
	closed()
	return found
}

func (l *line) episode(config Config, rates episode.Rates, begin int, open []Verdict) (episode.Episode, bool) {
	var excess, observed, expected float64
	least := 1.0
	var waste episode.Waste
	var hours []episode.Hour
	var rarest Verdict
	by := map[episode.Part]*big.Rat{}
	proven, peers := l.measure == "active", false
	for k, v := range open {
		proven, peers = proven && !v.Peers, peers || v.Peers
		excess += v.Observed - v.Expected
		observed, expected, least = observed+v.Observed, expected+v.Expected, min(least, v.P)
		l.addWaste(&waste, rates, begin+k, v)
		if v.P <= least {
			rarest = v
		}
		hours = append(hours, episode.Hour{
			At: l.first.Add(time.Duration(begin+k) * time.Hour).UTC(), Observed: v.Observed, Expected: v.Expected, Carried: v.Carried,
			Probability: v.P,
		})
		l.addParts(by, begin+k)
	}
	if len(open) == 0 || excess < config.MinGPUHours {
		return episode.Episode{}, false
	}
	start := l.first.Add(time.Duration(begin) * time.Hour).UTC()
	e := episode.Episode{
		Kind: episode.OffHoursSpike, Grade: episode.Proven, Cluster: l.cluster, Tenant: l.tenant, Project: l.project,
		User: l.user, Start: start, End: start.Add(time.Duration(len(open)) * time.Hour), New: peers,
		Observed: observed, Expected: expected, Score: least,
	}
	if !proven {
		e.Grade = episode.Suspected
	}
	e.Evidence = fmt.Sprintf("%.1f GPU-hours %s in %d off-hours from %s, %.1f expected; so much or more has a probability of %.2g",
		observed, l.measure, len(open), start.In(l.cal.zone).Format("Mon 2006-01-02 15:04 MST"), expected, least)
	e.Wasted(&waste)
	e.Facts.Hours, e.Facts.Sources = hours, rarest.sources()
	e.Facts.By = episode.PartsOf(by)
	e.Facts.Rules = []episode.Rule{
		{Key: "off_hours.p", Value: fmt.Sprintf("%.2g", open[0].P), Limit: fmt.Sprint(config.P)},
		{
			Key: "off_hours.min_rise", Value: fmt.Sprintf("%.1f", open[0].Observed-open[0].Expected),
			Limit: fmt.Sprint(config.MinRise), Least: true,
		},
		{
			Key: "off_hours.min_gpu_hours", Value: fmt.Sprintf("%.1f", excess), Limit: fmt.Sprint(config.MinGPUHours),
			Least: true,
		},
	}
	return e, true
}

// addParts adds what each workload and user had in an hour.
func (l *line) addParts(by map[episode.Part]*big.Rat, i int) {
	for _, u := range l.hours[i] {
		part := episode.Part{Workload: u.Workload, User: u.User}
		if by[part] == nil {
			by[part] = new(big.Rat)
		}
		by[part].Add(by[part], episode.GPUHours(l.amount(&u), u.Slices))
	}
}

// sources are the hours that the verdict's reference was taken from.
func (v *Verdict) sources() (out []episode.Source) {
	for _, h := range v.Week {
		out = append(out, episode.Source{At: h.At, GPUHours: h.GPUHours, Same: "hour_of_week"})
	}
	for _, h := range v.Day {
		out = append(out, episode.Source{At: h.At, GPUHours: h.GPUHours, Same: "hour_of_day"})
	}
	return out
}

// addWaste adds the hour's time above what was expected, divided among its uses in
// proportion: it isn't known which of them were in excess.
func (l *line) addWaste(waste *episode.Waste, rates episode.Rates, i int, v Verdict) {
	share := new(big.Rat)
	if share.SetFloat64(math.Max(0, 1-v.Expected/v.Observed)) == nil {
		return
	}
	for _, u := range l.hours[i] {
		part := episode.GPUHours(l.amount(&u), u.Slices)
		waste.Add(rates, &episode.Use{
			Hour: u.Start, Tenant: u.Tenant, Model: u.Model, Profile: u.Profile, Slices: u.Slices, ProfileSlices: u.ProfileSlices,
		}, part.Mul(part, share))
	}
}
