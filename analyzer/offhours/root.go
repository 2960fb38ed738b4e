package offhours

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/gputally/gputally/analyzer/episode"
)

// Use is a tenant's active time on GPUs of one model in one UTC hour.
type Use struct {
	Cluster, Tenant string
	Start           time.Time // UTC, the start of the hour
	Model           string
	Slices          uint16 // of the GPUs
	ActiveSliceMS   uint64 // 0 if the tenant held GPUs without working
}

// Coverage lists the hours of each cluster that the ledger observed well enough to
// conclude that a tenant was not working.
type Coverage map[string][]time.Time

// Find returns the spikes of all tenants, sorted. Uses may come in any order. They
// should include every hour in which a tenant held anything, because the tenant's
// history begins with the first.
func Find(config Config, rates episode.Rates, uses []Use, coverage Coverage) ([]episode.Episode, error) {
	ordered := slices.Clone(uses)
	slices.SortFunc(ordered, func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Tenant, b.Tenant),
			a.Start.Compare(b.Start), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Slices, b.Slices))
	})
	calendars := map[string]*calendar{}
	var found []episode.Episode
	for len(ordered) > 0 {
		n := 1
		for n < len(ordered) && ordered[n].Cluster == ordered[0].Cluster && ordered[n].Tenant == ordered[0].Tenant {
			n++
		}
		cal, err := calendarFor(config, calendars, ordered[0].Tenant)
		if err != nil {
			return nil, err
		}
		line := newTimeline(ordered[:n], coverage[ordered[0].Cluster], cal)
		found = append(found, line.find(config, rates)...)
		ordered = ordered[n:]
	}
	episode.Sort(found)
	return found, nil
}

// calendarFor shares the default calendar between tenants.
func calendarFor(config Config, made map[string]*calendar, tenant string) (*calendar, error) {
	key := tenant
	if _, own := config.Tenants[tenant]; !own {
		key = ""
	}
	if cal, ok := made[key]; ok {
		return cal, nil
	}
	cal, err := newCalendar(config.calendarOf(tenant))
	if err != nil {
		return nil, fmt.Errorf("read calendar of tenant %q: %w", tenant, err)
	}
	made[key] = cal
	return cal, nil
}

// nano is the unit of GPU-hours here: 1e-9. Integers make the result reproducible.
const nano = 1_000_000_000

// toNano rounds half up; the error is far below any threshold.
func toNano(sliceMS uint64, slices uint16) int64 {
	r := episode.GPUHours(sliceMS, slices)
	r.Mul(r, big.NewRat(nano, 1))
	num, half := r.Num(), new(big.Int).Rsh(r.Denom(), 1)
	return new(big.Int).Div(new(big.Int).Add(num, half), r.Denom()).Int64()
}

// hour is one UTC hour of one tenant.
type hour struct {
	active int64 // nano-GPU-hours
	models []modelUse
	seen   bool // the hour was observed well enough to distinguish work from rest
	off    bool
}

type modelUse struct {
	name   string
	active int64
}

// timeline is one tenant's hours without gaps, from the first to the last in which it
// held anything.
type timeline struct {
	cluster, tenant string
	first           time.Time
	zone            *time.Location
	hours           []hour
}

func newTimeline(uses []Use, covered []time.Time, cal *calendar) *timeline {
	first, last := uses[0], uses[len(uses)-1]
	line := &timeline{cluster: first.Cluster, tenant: first.Tenant, first: first.Start.UTC(), zone: cal.zone}
	line.hours = make([]hour, line.index(last.Start)+1)
	for _, u := range uses {
		h := &line.hours[line.index(u.Start)]
		if n := toNano(u.ActiveSliceMS, u.Slices); n > 0 {
			h.active += n
			h.models = append(h.models, modelUse{name: u.Model, active: n})
		}
	}
	for _, t := range covered {
		if i := line.index(t); i >= 0 && i < len(line.hours) {
			line.hours[i].seen = true
		}
	}
	for i := range line.hours {
		line.hours[i].off = cal.offHour(line.at(i))
	}
	return line
}

func (l *timeline) index(t time.Time) int { return int(t.Sub(l.first) / time.Hour) }

func (l *timeline) at(i int) time.Time { return l.first.Add(time.Duration(i) * time.Hour) }
