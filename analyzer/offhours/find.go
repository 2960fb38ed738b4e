package offhours

import (
	"cmp"
	"fmt"
	"maps"
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

// group is whose hours are judged together: a tenant, one of its projects or users.
type group struct{ cluster, tenant, project, user string }

// line is a group's hours.
type line struct {
	group
	*Series
	cal    *calendar
	active bool      // active time is compared; else held time, because no activity was ever seen
	first  time.Time // its first hour
	next   time.Time // the hour that is judged next
	open   []flagged // of an episode that may go on
}

// flagged is an hour of an episode.
type flagged struct {
	at   time.Time
	v    Verdict
	uses []Use
}

// Finder judges the hours of all groups, in the order of time. What it remembers grows with the number of groups that
// held anything in the last nine weeks, and with what it has found.
type Finder struct {
	config    Config
	rates     episode.Rates
	calendars map[string]*calendar
	lines     map[group]*line
	activity  map[string]time.Time          // by cluster: its first hour with activity
	seen      map[string]map[time.Time]bool // by cluster: its hours of which enough was observed
	residuals map[int64][]float64           // of tenants known for long enough, by day since 1970
	peers     map[int64]*tail.Tail          // the newest only
	found     []episode.Episode
	next      time.Time // the hour after the last one
}

// New returns a Finder that has seen no hour.
func New(config Config, rates episode.Rates) *Finder {
	return &Finder{
		config: config, rates: rates, calendars: map[string]*calendar{}, lines: map[group]*line{},
		activity: map[string]time.Time{}, seen: map[string]map[time.Time]bool{}, residuals: map[int64][]float64{}, peers: map[int64]*tail.Tail{},
	}
}

// Hour judges the next hour: what was held in it, and the clusters of which enough was observed.
func (f *Finder) Hour(at time.Time, uses []Use, seen []string) error {
	at = at.UTC()
	f.next = at.Add(time.Hour)
	for _, cluster := range seen {
		if f.seen[cluster] == nil {
			f.seen[cluster] = map[time.Time]bool{}
		}
		f.seen[cluster][at] = true
	}
	by := map[group][]Use{}
	for _, u := range uses {
		if _, known := f.activity[u.Cluster]; !known && u.ActiveSliceMS > 0 {
			f.activity[u.Cluster] = at
		}
		for _, g := range groupsOf(u) {
			by[g] = append(by[g], u)
		}
	}
	for _, g := range slices.SortedFunc(maps.Keys(by), compareGroups) {
		l := f.lines[g]
		if l == nil {
			cal, err := f.config.calendarFor(f.calendars, g.tenant)
			if err != nil {
				return err
			}
			l = &line{group: g, cal: cal, first: at, next: at, Series: NewSeries(f.config, cal)}
			f.lines[g] = l
		}
		f.add(l, at, by[g])
	}
	if at.Hour() == 0 {
		f.forget(at.Add(-Reach))
	}
	return nil
}

func compareGroups(a, b group) int {
	return slices.CompareFunc([]string{a.cluster, a.tenant, a.project, a.user},
		[]string{b.cluster, b.tenant, b.project, b.user}, strings.Compare)
}

// add judges the hours of a group since its last one, in which it held nothing, and this one.
func (f *Finder) add(l *line, at time.Time, uses []Use) {
	if !l.active && slices.ContainsFunc(uses, func(u Use) bool { return u.ActiveSliceMS > 0 }) {
		// It had no activity since its cluster tells of any; what it held before is no measure of that.
		f.close(l)
		l.active, l.Series, l.next = true, NewSeries(f.config, l.cal), f.activity[l.cluster]
		for _, t := range []time.Time{l.first, at.Add(-Reach)} {
			if t.After(l.next) {
				l.next = t
			}
		}
	}
	for l.next.Before(at) {
		f.judge(l, nil)
	}
	f.judge(l, uses)
}

// judge judges the group's next hour.
func (f *Finder) judge(l *line, uses []Use) {
	at, known := l.next, l.count >= newcomer
	v := l.Add(at, l.held(uses), f.seen[l.cluster][at], func() *tail.Tail { return f.peersOf(at) })
	l.next = at.Add(time.Hour)
	if v.Flagged {
		l.open = append(l.open, flagged{at, v, uses})
		return
	}
	f.close(l)
	if l.project == "" && l.user == "" && v.Off && f.seen[l.cluster][at] && known {
		day := at.Unix() / 86400
		f.residuals[day] = append(f.residuals[day], v.Observed-v.Expected)
	}
}

// close ends the group's open episode.
func (f *Finder) close(l *line) {
	if e, ok := l.episode(f.config, f.rates); ok {
		f.found = append(f.found, e)
	}
	l.open = nil
}

// forget drops groups, coverage and residuals that no verdict depends on any more.
func (f *Finder) forget(before time.Time) {
	maps.DeleteFunc(f.lines, func(_ group, l *line) bool {
		old := l.next.Before(before)
		if old {
			f.close(l)
		}
		return old
	})
	for _, hours := range f.seen {
		maps.DeleteFunc(hours, func(at time.Time, _ bool) bool { return at.Before(before) })
	}
	maps.DeleteFunc(f.residuals, func(day int64, _ []float64) bool { return day*86400 < before.Unix() })
}

// peersOf is the tail of the residuals of all tenants that were known for long enough, of the 28 days before that day.
func (f *Finder) peersOf(at time.Time) *tail.Tail {
	day := at.Unix() / 86400
	if t, done := f.peers[day]; done {
		return t
	}
	var sample []float64
	for d := day - 28; d < day; d++ {
		sample = append(sample, f.residuals[d]...)
	}
	clear(f.peers)
	f.peers[day] = nil
	if len(sample) >= 500 {
		t := tail.New(sample, unit)
		f.peers[day] = &t
	}
	return f.peers[day]
}

// Episodes returns the spikes up to the last hour, sorted. A spike of a tenant hides those of
// its projects and users at the same time.
func (f *Finder) Episodes() []episode.Episode {
	found := slices.Clone(f.found)
	for _, l := range f.lines {
		if e, ok := l.episode(f.config, f.rates); ok {
			e.Open = l.next.Equal(f.next)
			found = append(found, e)
		}
	}
	wider := map[[2]string][]episode.Episode{}
	for i := range found {
		key := [2]string{found[i].Cluster, found[i].Tenant}
		wider[key] = append(wider[key], found[i])
	}
	found = slices.DeleteFunc(found, func(e episode.Episode) bool { return hidden(e, wider[[2]string{e.Cluster, e.Tenant}]) })
	episode.Sort(found)
	return found
}

// hidden reports whether a wider group of the tenant has a spike at the same time.
func hidden(e episode.Episode, among []episode.Episode) bool {
	return slices.ContainsFunc(among, func(o episode.Episode) bool {
		wider := o.Project == "" && o.User == "" && e.Project+e.User != "" || o.User == "" && o.Project != "" && e.User != ""
		return wider && o.Overlaps(e.Start, e.End)
	})
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
	if l.active {
		return u.ActiveSliceMS
	}
	return u.HeldSliceMS
}

// measure names what is compared.
func (l *line) measure() string {
	if l.active {
		return "active"
	}
	return "held"
}

// held are an hour's uses in GPU-hours, one for each workload and user.
func (l *line) held(uses []Use) []Held {
	sums := map[Held]float64{}
	for i := range uses {
		hours, _ := episode.GPUHours(l.amount(&uses[i]), uses[i].Slices).Float64()
		sums[Held{Workload: uses[i].Workload, User: uses[i].User}] += hours
	}
	out := make([]Held, 0, len(sums))
	for h, hours := range sums {
		h.GPUHours = hours
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b Held) int { return cmp.Or(cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.User, b.User)) })
	return out
}

// episode is the group's open episode, if it is large enough.
func (l *line) episode(config Config, rates episode.Rates) (e episode.Episode, ok bool) {
	if len(l.open) == 0 {
		return e, false
	}
	first, rarest := l.open[0], &l.open[0].v
	var excess, observed, expected float64
	var waste episode.Waste
	proven := l.active
	by := map[episode.Part]*big.Rat{}
	for i := range l.open {
		h := &l.open[i]
		v := &h.v
		proven, e.New = proven && !v.Peers, e.New || v.Peers
		excess, observed, expected = excess+v.Observed-v.Expected, observed+v.Observed, expected+v.Expected
		if v.P <= rarest.P {
			rarest = v
		}
		l.addWaste(&waste, rates, h)
		l.addParts(by, h.uses)
		e.Facts.Hours = append(e.Facts.Hours, episode.Hour{
			At: h.at.UTC(), Observed: v.Observed, Expected: v.Expected, Carried: v.Carried, Probability: v.P,
		})
	}
	if excess < config.MinGPUHours {
		return e, false
	}
	e.Kind, e.Grade = episode.OffHoursSpike, episode.Proven
	e.Cluster, e.Tenant, e.Project, e.User = l.cluster, l.tenant, l.project, l.user
	e.Start, e.End = first.at.UTC(), first.at.Add(time.Duration(len(l.open))*time.Hour).UTC()
	e.Observed, e.Expected, e.Score = observed, expected, rarest.P
	if !proven {
		e.Grade = episode.Suspected
	}
	e.Evidence = fmt.Sprintf("%.1f GPU-hours %s in %d off-hours from %s, %.1f expected; so much or more has a probability of %.2g",
		observed, l.measure(), len(l.open), e.Start.In(l.cal.zone).Format("Mon 2006-01-02 15:04 MST"), expected, rarest.P)
	e.Wasted(&waste)
	e.Facts.Sources, e.Facts.By, e.Facts.Rules = rarest.sources(), episode.PartsOf(by), rules(config, &first.v, excess)
	return e, true
}

// rules are those that an episode passed; first is its first hour.
func rules(config Config, first *Verdict, excess float64) []episode.Rule {
	return []episode.Rule{
		{Key: "off_hours.p", Value: fmt.Sprintf("%.2g", first.P), Limit: fmt.Sprint(config.P)},
		{
			Key: "off_hours.min_rise", Value: fmt.Sprintf("%.1f", first.Observed-first.Expected), Limit: fmt.Sprint(config.MinRise),
			Least: true,
		},
		{Key: "off_hours.min_gpu_hours", Value: fmt.Sprintf("%.1f", excess), Limit: fmt.Sprint(config.MinGPUHours), Least: true},
	}
}

// addParts adds what each workload and user had in an hour.
func (l *line) addParts(by map[episode.Part]*big.Rat, uses []Use) {
	for i := range uses {
		part := episode.Part{Workload: uses[i].Workload, User: uses[i].User}
		if by[part] == nil {
			by[part] = new(big.Rat)
		}
		by[part].Add(by[part], episode.GPUHours(l.amount(&uses[i]), uses[i].Slices))
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
func (l *line) addWaste(waste *episode.Waste, rates episode.Rates, h *flagged) {
	share := new(big.Rat)
	if share.SetFloat64(math.Max(0, 1-h.v.Expected/h.v.Observed)) == nil {
		return
	}
	for i := range h.uses {
		u := &h.uses[i]
		part := episode.GPUHours(l.amount(u), u.Slices)
		waste.Add(rates, &episode.Use{
			Hour: u.Start, Tenant: u.Tenant, Model: u.Model, Profile: u.Profile, Slices: u.Slices, ProfileSlices: u.ProfileSlices,
		}, part.Mul(part, share))
	}
}
