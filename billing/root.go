package billing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/billing/invoice"
	"github.com/gpuledger/gpuledger/billing/rating"
	"github.com/gpuledger/gpuledger/internal/clock"
)

// Deps of the service; all are needed.
type Deps struct {
	Drafts   *invoice.Drafts
	Clock    clock.Clock
	Log      *slog.Logger
	Registry prometheus.Registerer
}

// Service rates the current months again and again.
type Service struct {
	config  Config
	deps    Deps
	metrics *metrics
}

// New checks the configuration and registers the metrics; nothing runs yet.
func New(config Config, deps Deps) (*Service, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("check billing configuration: %w", err)
	}
	if deps.Drafts == nil || deps.Clock == nil || deps.Log == nil || deps.Registry == nil {
		return nil, errors.New("check billing dependencies: drafts, clock, log and registry are all needed")
	}
	m, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	return &Service{config: config, deps: deps, metrics: m}, nil
}

// Run rates at once and then every Interval, until ctx ends; then it returns
// nil. A month that fails is logged and counted, and tried again next time.
func (s *Service) Run(ctx context.Context) error {
	for {
		if err := s.RunOnce(ctx); err != nil && ctx.Err() == nil {
			s.deps.Log.Error("billing run failed", "err", err, "next_in", s.config.Interval)
		}
		if err := clock.Sleep(ctx, s.deps.Clock, s.config.Interval); err != nil {
			return nil
		}
	}
}

// RunOnce rates the months in sight; the error joins those that failed.
func (s *Service) RunOnce(ctx context.Context) error {
	began := s.deps.Clock.Now()
	var errs []error
	sight := map[string]bool{}
	for _, period := range s.Periods() {
		sight[period] = true
		month, err := s.deps.Drafts.List(ctx, period)
		if err != nil {
			s.metrics.errors.Inc()
			errs = append(errs, err)
			continue
		}
		s.metrics.drafts.set(month)
	}
	s.metrics.drafts.keep(sight)
	s.metrics.duration.Observe(s.deps.Clock.Since(began).Seconds())
	if len(errs) == 0 {
		s.metrics.runs.Inc()
		s.metrics.lastRun.Set(float64(s.deps.Clock.Now().UnixMilli()) / 1000)
	}
	return errors.Join(errs...)
}

// Periods are the months in sight, the current one in the book's zone first.
func (s *Service) Periods() []string {
	current := rating.PeriodOf(s.deps.Clock.Now(), s.deps.Drafts.Book().Zone)
	periods := make([]string, s.config.Months)
	for i := range periods {
		periods[i] = current.Before(i).String()
	}
	return periods
}
