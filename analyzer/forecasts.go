package analyzer

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/analyzer/month"
)

// Outlooks asks for the months of tenants. The zero value of each field stands for what is
// said of it.
type Outlooks struct {
	Rates  episode.Rates                      // none: no list price is known
	Zone   func(tenant string) *time.Location // of a tenant's months; UTC
	Now    time.Time                          // later hours are ignored, but for a day; none is
	Month  time.Time                          // its first day; the month of the ledger's newest hours
	Tenant string                             // all
}

// Forecast calls take with the outlook of each tenant, in order of their names. It returns
// the end of the newest hour that is over; zero: the ledger is empty.
func (o Outlooks) Forecast(ctx context.Context, db DB, take func(month.Tenant)) (end time.Time, err error) {
	until := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	if !o.Now.IsZero() {
		until = o.Now.UTC().Add(maxAhead)
	}
	seen, end, err := readSeen(ctx, db, until)
	if err != nil || end.IsZero() {
		return end, err
	}
	h, err := month.New(end, o.Month)
	if err != nil {
		return end, err
	}
	if h.Rates, h.Zone = o.Rates, o.Zone; h.Rates == nil {
		h.Rates = episode.NoRates{}
	}
	for _, s := range seen {
		h.See(s.cluster, s.hour, s.observed && s.over)
	}
	var name string
	var uses []month.Use
	flush := func() {
		if len(uses) > 0 {
			take(h.Tenant(name, uses))
		}
		uses = uses[:0]
	}
	err = each(ctx, db, func(rows driver.Rows) error {
		var tenant string
		var u month.Use
		if err := rows.Scan(&tenant, &u.Cluster, &u.Model, &u.Hours, &u.GPUHours); err != nil {
			return err
		}
		if tenant != name {
			flush()
		}
		name, uses = tenant, append(uses, u)
		return ctx.Err()
	}, tenantHoursSQL, h.From, h.From, h.End, o.Tenant, o.Tenant)
	if err != nil {
		return end, fmt.Errorf("read hours of tenants: %w", err)
	}
	flush()
	return end, nil
}

// readSeen returns the clusters' hours of which forecasts are made, and the end of the last
// that is over.
func readSeen(ctx context.Context, db DB, until time.Time) (seen []seenHour, end time.Time, err error) {
	_, newest, err := readNewest(ctx, db, until)
	if err != nil || newest.IsZero() {
		return nil, time.Time{}, err
	}
	return readHours(ctx, db, newest.Add(-month.Reach), newest.Add(time.Hour))
}

// forecastEvery is the least time between two forecasts of the service: the ledger has new
// hours once an hour.
const forecastEvery = time.Hour

// refreshForecasts replaces what the metrics show by what is forecast now.
func (s *Service) refreshForecasts(ctx context.Context) error {
	now := s.deps.Clock.Now()
	if since := now.Sub(s.forecastAt); !s.forecastAt.IsZero() && since >= 0 && since < forecastEvery {
		return nil
	}
	var tenants []month.Tenant
	_, err := Outlooks{Rates: s.deps.Rates, Zone: s.deps.Zone, Now: now}.Forecast(ctx, s.deps.DB,
		func(t month.Tenant) { tenants = append(tenants, t) })
	if err != nil {
		return fmt.Errorf("forecast months: %w", err)
	}
	s.metrics.months.set(tenants, s.config.Forecast.Budgets)
	s.forecastAt = now
	return nil
}
