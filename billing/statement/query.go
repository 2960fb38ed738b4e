package statement

import (
	"context"
	_ "embed"
	"time"

	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/store"
)

// groupsSQL reads usage by group, summed exactly: by the slices of a GPU inside, as GPU-hours truncated to nine
// places outside. Groups by time and by model are complete, in their order; of the others it returns the ten with the
// most held time or, for waste, the most idle time. Parameters: from, to, tenant (empty: everything), group.
//
//go:embed groups.sql
var groupsSQL string

// episodesSQL reads the most expensive findings that overlap a range; those of one workload at one time, such as of a
// job on eight GPUs, are one. Parameters: from, to, tenant (empty: any).
//
//go:embed episodes.sql
var episodesSQL string

// episodeSumsSQL counts the findings of each kind. Parameters as above.
//
//go:embed episode_sums.sql
var episodeSumsSQL string

// monthsSQL reads the ledger's months by UTC, newest first. It reads no rows: the table stores each part's first and
// last hour.
const monthsSQL = `
SELECT toYYYYMM(hour), min(hour), max(hour)
FROM usage_hourly
GROUP BY toYYYYMM(hour)
ORDER BY toYYYYMM(hour) DESC`

// scope is the range and tenant of a usage query.
type scope struct {
	from, to time.Time // UTC hours, to exclusive
	tenant   string    // empty: everything
}

func (s scope) args() []any {
	return []any{
		store.Named("from", s.from.UTC().Format(time.DateTime)), store.Named("to", s.to.UTC().Format(time.DateTime)),
		store.Named("tenant", s.tenant),
	}
}

// group is usage of one combination of values.
type group struct {
	Values []string
	hours
}

// Usage is the hours alone.
func (g group) Usage() hours { return g.hours }

// groups returns usage by hours, workloads, users, waste or models.
func (p *pages) groups(ctx context.Context, by string, s scope) ([]group, error) {
	return store.Select(ctx, p.deps.DB, "usage by "+by, groupsSQL, append(s.args(), store.Named("group", by)),
		func(g *group) []any {
			fields := []any{&g.Values}
			for i := range g.by {
				fields = append(fields, &g.by[i])
			}
			return append(fields, &g.energyMJ)
		})
}

// used is the usage and the findings of a scope in a month.
type used struct {
	Findings     findings
	All          hours
	days, months []column
	groups       map[string][]group
}

// used reads the days of a month, the months up to it since some time before it, and groups.
func (p *pages) used(
	ctx context.Context, s scope, period rating.Period, zone *time.Location, since time.Time, groups ...string,
) (*used, error) {
	trend := s
	trend.from = since
	byHour, err := p.groups(ctx, "hours", trend)
	if err != nil {
		return nil, err
	}
	u := &used{groups: map[string][]group{}, Findings: findings{Zone: zone}}
	if u.days, u.months, err = columnsOf(byHour, period, zone); err != nil {
		return nil, err
	}
	for _, day := range u.days {
		u.All.add(day.hours)
	}
	for _, by := range groups {
		if u.groups[by], err = p.groups(ctx, by, s); err != nil {
			return nil, err
		}
	}
	if u.Findings.Episodes, err = store.Select(ctx, p.deps.DB, "episodes", episodesSQL, s.args(),
		(*episode).fields); err != nil {
		return nil, err
	}
	for i := range u.Findings.Episodes {
		if e := &u.Findings.Episodes[i]; p.deps.Marks != nil {
			e.Said = p.said(e)
		}
	}
	u.Findings.Sums, err = store.Select(ctx, p.deps.DB, "sums of episodes", episodeSumsSQL, s.args(),
		func(e *episodeSum) []any { return []any{&e.Kind, &e.Count, &e.Hours} })
	return u, err
}

// ends are the first and the last hour of each UTC month of the ledger, the newest month first.
func (p *pages) ends(ctx context.Context) (ends []time.Time, err error) {
	type span struct {
		month       uint32
		first, last time.Time
	}
	fields := func(s *span) []any { return []any{&s.month, &s.first, &s.last} }
	err = store.Each(ctx, p.deps.DB, "months", monthsSQL, nil, fields, func(s *span) error {
		ends = append(ends, s.first, s.last)
		return nil
	})
	return ends, err
}
