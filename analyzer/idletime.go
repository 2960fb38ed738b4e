package analyzer

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/analyzer/idle"
)

// IdleTime is a tenant's idle time: all of the ledger, and the part of it that is in findings.
type IdleTime struct{ All, Found episode.Amount }

// Idle sums up each tenant's idle time in the UTC hours that begin within the tenant's bounds, which lie in [from, to).
func Idle(ctx context.Context, db DB, config Config, rates episode.Rates, from, to time.Time,
	bounds func(tenant string) (from, to time.Time),
) (map[string]*IdleTime, error) {
	all := map[string]*episode.Waste{}
	err := each(ctx, db, func(rows driver.Rows) error {
		u := episode.Use{Idle: true}
		var idle uint64
		if err := rows.Scan(&u.Tenant, &u.Hour, &u.Model, &u.Profile, &u.Slices, &u.ProfileSlices, &idle); err != nil {
			return err
		}
		if u.Hour = u.Hour.UTC(); all[u.Tenant] == nil {
			all[u.Tenant] = &episode.Waste{}
		}
		all[u.Tenant].Add(rates, &u, episode.GPUHours(idle, u.Slices))
		return nil
	}, idleHoursSQL, from, to)
	if err != nil {
		return nil, fmt.Errorf("sum up idle time: %w", err)
	}
	runs, err := readRuns(ctx, db, config.Idle, nil, idleBegin(from), to.Add(idleReach))
	if err != nil {
		return nil, fmt.Errorf("find idle allocations: %w", err)
	}
	found := idle.Episodes(config.Idle, runs, rates)
	out := map[string]*IdleTime{}
	for tenant, waste := range all {
		begin, end := bounds(tenant)
		out[tenant] = &IdleTime{All: waste.Between(begin, end)}
	}
	for i := range found {
		e := &found[i]
		if t := out[e.Tenant]; t != nil && e.Grade == episode.Proven {
			begin, end := bounds(e.Tenant)
			part := e.Waste.Between(begin, end)
			t.Found.Add(&part)
		}
	}
	return out, nil
}
