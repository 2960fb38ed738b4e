package pattern

import (
	"cmp"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"time"

	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/internal/plural"
)

const (
	// before is how far back an allocation looks for others on other days.
	before = 14 * 24 * time.Hour
	// others is how many other days there must be.
	others = 2
	// usual is the share of days on which an hour of the day must be idle to be in a schedule, and shortest the least
	// length of a schedule in hours.
	usual    = 0.6
	shortest = 3
)

// Reach is how long before an allocation's month others must be known.
const Reach = before

// key is what recurring allocations have in common.
type key struct{ cluster, tenant, project, name string }

// volatile is a part of a workload's name that differs from start to start: one with a digit, or a suffix that
// Kubernetes generates (four to ten letters without vowels).
var volatile = regexp.MustCompile(`^(.*\d.*|[bcdfghjklmnpqrstvwxz]{4,10})$`)

// named is a first part that is a name though it has digits, such as llama3.
var named = regexp.MustCompile(`^[A-Za-z]{2}`)

// Stem is a workload's name up to its first volatile part.
func Stem(workload string) string {
	parts := strings.FieldsFunc(workload, func(r rune) bool { return strings.ContainsRune("-_./", r) })
	for i, part := range parts {
		if volatile.MatchString(part) && (i > 0 || !named.MatchString(part)) {
			parts = parts[:i]
			break
		}
	}
	return strings.Join(parts, "-")
}

func keyOf(e *episode.Episode) key {
	return key{e.Cluster, e.Tenant, e.Project, cmp.Or(Stem(e.Workload), e.User, e.Workload)}
}

// group is a pattern in the making.
type group struct {
	key
	month    time.Time
	children []*episode.Episode
	since    time.Time // the start of the first that recurs; zero: none does
}

// Find sets the parents of the idle allocations that recur and returns the patterns. zone gives a tenant's time zone.
func Find(episodes []episode.Episode, zone func(tenant string) *time.Location) []episode.Episode {
	seen := map[key][]time.Time{}
	months := map[key]*group{} // the newest of each key
	var all []*group
	for i := range episodes {
		e := &episodes[i]
		if e.Kind != episode.IdleAllocation || e.Grade != episode.Proven {
			continue
		}
		k := keyOf(e)
		month := time.Date(e.Start.Year(), e.Start.Month(), 1, 0, 0, 0, 0, time.UTC)
		g := months[k]
		if g == nil || !g.month.Equal(month) {
			g = &group{key: k, month: month}
			months[k], all = g, append(all, g)
		}
		g.children = append(g.children, e)
		if g.since.IsZero() && recurs(e.Start, seen[k], zone(e.Tenant)) {
			g.since = e.Start
		}
		seen[k] = append(seen[k], e.Start)
	}
	var found []episode.Episode
	for _, g := range all {
		if !g.since.IsZero() {
			found = append(found, g.pattern(zone(g.tenant)))
		}
	}
	return found
}

// recurs reports whether there are enough other days among earlier starts.
func recurs(start time.Time, earlier []time.Time, zone *time.Location) bool {
	days := map[string]bool{}
	today := start.In(zone).Format(time.DateOnly)
	for i := len(earlier) - 1; i >= 0 && start.Sub(earlier[i]) <= before; i-- {
		if day := earlier[i].In(zone).Format(time.DateOnly); day != today {
			days[day] = true
		}
	}
	return len(days) >= others
}

func (g *group) pattern(zone *time.Location) episode.Episode {
	p := episode.Episode{
		Kind: episode.IdlePattern, Grade: episode.Proven, Cluster: g.cluster, Tenant: g.tenant, Project: g.project,
		Workload: g.name, Start: g.month, Known: g.since,
	}
	var waste episode.Waste
	first, last := g.children[0].Start, g.children[0].End
	for _, e := range g.children {
		waste.AddAll(e.Waste)
		if e.End.After(last) {
			last = e.End
		}
		p.Node, p.User, p.Open = e.Node, e.User, p.Open || e.Open
		for _, leaf := range e.Leaves {
			p.AddLeaf(leaf)
		}
	}
	p.End = last
	p.Evidence = fmt.Sprintf("%s from %s to %s", plural.Of(len(g.children), "idle allocation"),
		first.In(zone).Format("2006-01-02"), last.In(zone).Format("2006-01-02"))
	p.Evidence += schedule(&waste, zone)
	p.Wasted(&waste)
	id := p.ID()
	for _, e := range g.children {
		e.Parent = id
	}
	return p
}

// schedule proposes hours of the day in which the workload can be stopped; empty: it is idle at no usual time.
func schedule(waste *episode.Waste, zone *time.Location) string {
	hours := waste.Hours()
	var idleOn [24]map[string]bool
	for h := range idleOn {
		idleOn[h] = map[string]bool{}
	}
	days := map[string]bool{}
	for _, at := range hours {
		local := at.In(zone)
		day := local.Format(time.DateOnly)
		idleOn[local.Hour()][day], days[day] = true, true
	}
	begin, length := longest(func(h int) bool { return float64(len(idleOn[h])) >= usual*float64(len(days)) })
	if length < shortest {
		return ""
	}
	var saved episode.Amount
	for _, at := range hours {
		if (at.In(zone).Hour()-begin+24)%24 < length {
			saved.Add(waste.Hour(at))
		}
	}
	_, currency := waste.Cost()
	return fmt.Sprintf("; usually idle from %02d:00 to %02d:00 %s: stopped then, it would have saved %s GPU-hours%s", begin,
		(begin+length)%24, zone, saved.GPUHours.FloatString(1), price(&saved.Cost, currency))
}

func price(cost *big.Rat, currency string) string {
	if currency == "" {
		return ""
	}
	return " and " + cost.FloatString(2) + " " + currency
}

// longest is the longest run of hours of the day, over midnight too.
func longest(idle func(hour int) bool) (begin, length int) {
	for h := range 24 {
		n := 0
		for n < 24 && idle((h+n)%24) {
			n++
		}
		if n > length {
			begin, length = h, n
		}
	}
	return begin, length
}
