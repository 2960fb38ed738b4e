package analyzer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/analyzer/idle"
	"github.com/gputally/gputally/internal/clock"
)

// Deps are the dependencies of a Service. Rates may be nil: then no cost is known. Zone is
// that of a tenant's months; nil: UTC.
type Deps struct {
	DB    DB
	Rates episode.Rates
	Zone  func(tenant string) *time.Location
	// Muted returns what tells whether a finding is muted now, so that it raises no alert; nil: none is.
	Muted    func(ctx context.Context) (func(*episode.Episode) bool, error)
	Clock    clock.Clock
	Log      *slog.Logger
	Registry prometheus.Registerer
}

// Service finds and publishes episodes at every Interval, and forecasts months once an hour.
type Service struct {
	config  Config
	deps    Deps
	metrics *metrics
	others  others // of the last run that looked for them
	known   *known // nil: nothing is remembered

	forecastAt time.Time // the last forecasts were made
}

// New checks the configuration and registers the metrics; Run starts the service.
func New(config Config, deps Deps) (*Service, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("check analyzer configuration: %w", err)
	}
	if deps.DB == nil || deps.Clock == nil || deps.Log == nil || deps.Registry == nil {
		return nil, errors.New("check analyzer dependencies: store, clock, log and registry must all be set")
	}
	return &Service{config: config, deps: deps, metrics: newMetrics(deps.Registry)}, nil
}

// Run makes a run at once and then one every Interval, until ctx ends; then it returns
// nil. A failed run is logged and counted, and repeated at the next interval.
func (s *Service) Run(ctx context.Context) error {
	for {
		if err := s.RunOnce(ctx); err != nil && ctx.Err() == nil {
			s.deps.Log.Error("analyzer run failed", "err", err, "next_in", s.config.Interval)
		}
		if err := clock.Sleep(ctx, s.deps.Clock, s.config.Interval); err != nil {
			return nil
		}
	}
}

// RunOnce refreshes the Window before the ledger's newest hour. If the ledger is empty
// it does nothing and returns nil.
func (s *Service) RunOnce(ctx context.Context) error {
	began := s.deps.Clock.Now()
	err := s.runWindow(ctx)
	s.metrics.duration.Observe(s.deps.Clock.Since(began).Seconds())
	if err != nil {
		s.metrics.errors.Inc()
		return err
	}
	s.metrics.runs.Inc()
	s.metrics.lastRun.Set(float64(s.deps.Clock.Now().UnixMilli()) / 1000)
	return nil
}

// maxAhead is how far this machine's clock may be behind the clocks of the collectors.
const maxAhead = 24 * time.Hour

func (s *Service) runWindow(ctx context.Context) error {
	hours, newest, err := readNewest(ctx, s.deps.DB, s.deps.Clock.Now().UTC().Add(maxAhead))
	if err != nil {
		return fmt.Errorf("read newest hours: %w", err)
	}
	if len(hours) == 0 {
		s.metrics.findings.set(nil, nil, nil)
		s.metrics.months.set(nil, nil)
		return nil
	}
	to := newest.Add(time.Hour)
	episodes, err := s.Refresh(ctx, to.Add(-s.config.Window), to)
	if err != nil {
		return err
	}
	clusters, err := readSight(ctx, s.deps.DB, to)
	if err != nil {
		return fmt.Errorf("read observed share: %w", err)
	}
	s.metrics.findings.set(episodes, clusters, hours)
	return s.refreshForecasts(ctx)
}

func (s *Service) muted(ctx context.Context) (func(*episode.Episode) bool, error) {
	if s.deps.Muted == nil {
		return func(*episode.Episode) bool { return false }, nil
	}
	return s.deps.Muted(ctx)
}

// Refresh finds and publishes the episodes that overlap [from, to), and returns them.
// An allocation that has been idle for longer than the window keeps its start and id.
func (s *Service) Refresh(ctx context.Context, from, to time.Time) ([]episode.Episode, error) {
	episodes, err := s.Find(ctx, from, to)
	if err != nil {
		return nil, err
	}
	done, err := Publish(ctx, s.deps.DB, s.deps.Clock.Now(), from, to, episodes)
	if err != nil {
		return nil, err
	}
	s.metrics.published(done)
	s.deps.Log.Debug("refreshed", "from", from, "to", to, "written", done.Written, "deleted", done.Deleted,
		"kept", done.Kept)
	return episodes, nil
}

// Find is the function Find with the service's store, configuration and rates. Of idle time it reads what was added or
// changed since the last run. Spikes and findings about devices are those of the last run if it looked at the same hours less
// than an hour ago: they are of whole hours, and cost the most to find. It may be called by one goroutine at a time.
func (s *Service) Find(ctx context.Context, from, to time.Time) ([]episode.Episode, error) {
	rates := s.deps.Rates
	if rates == nil {
		rates = episode.NoRates{}
	}
	muted, err := s.muted(ctx)
	if err != nil {
		return nil, fmt.Errorf("read muted findings: %w", err)
	}
	return find(ctx, s.deps.DB, s.config, rates, from, to, sources{
		muted: muted,
		runs: func(newest map[string]time.Time, begin, end time.Time) ([]idle.Run, error) {
			return s.idleRuns(ctx, newest, begin, end)
		},
		others: func(newest map[string]time.Time, from, to time.Time) ([]episode.Episode, error) {
			return s.findOthers(ctx, rates, newest, from, to)
		},
	})
}

func (s *Service) findOthers(ctx context.Context, rates episode.Rates, newest map[string]time.Time, from,
	to time.Time,
) ([]episode.Episode, error) {
	last, now := &s.others, s.deps.Clock.Now()
	if from.Equal(last.from) && to.Equal(last.to) && now.Sub(last.at) < time.Hour {
		return slices.Clone(last.found), nil
	}
	found, err := findOthers(ctx, s.deps.DB, s.config, rates, newest, from, to)
	if err == nil {
		s.others = others{from, to, now, slices.Clone(found)}
	}
	return found, err
}

// others are the findings of whole hours that were found at a time in a range.
type others struct {
	from, to, at time.Time
	found        []episode.Episode
}

// endedAfter is how far a cluster may lag behind the newest one before it is regarded
// as ended; the ledger uses the same time to close hours.
const endedAfter = 72 * time.Hour

// readNewest returns the newest hour of each cluster that has not ended, and the
// newest of all.
func readNewest(ctx context.Context, db DB,
	until time.Time,
) (byCluster map[string]time.Time, newest time.Time, err error) {
	byCluster = map[string]time.Time{}
	err = each(ctx, db, func(rows driver.Rows) error {
		var cluster string
		var hour time.Time
		if err := rows.Scan(&cluster, &hour); err != nil {
			return err
		}
		if byCluster[cluster] = hour.UTC(); hour.After(newest) {
			newest = hour.UTC()
		}
		return nil
	}, newestHoursSQL, until)
	maps.DeleteFunc(byCluster, func(_ string, hour time.Time) bool { return newest.Sub(hour) > endedAfter })
	return byCluster, newest, err
}
