package billing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/clock"
)

// Deps are the service's dependencies; all are required.
type Deps struct {
	Register *invoice.Register
	// Project projects the decisions into ClickHouse, and returns the number of messages.
	Project  func(ctx context.Context) (int64, error)
	Clock    clock.Clock
	Log      *slog.Logger
	Registry prometheus.Registerer
}

// Service rates the current months periodically, and finds invoices whose usage has changed.
type Service struct {
	config  Config
	deps    Deps
	metrics *metrics
	looked  map[string]invoice.Fingerprint // by period: of the ledger, at the last search for adjustments
}

// New validates the configuration and registers the metrics; it starts nothing.
func New(config Config, deps Deps) (*Service, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("check billing configuration: %w", err)
	}
	if deps.Register == nil || deps.Project == nil || deps.Clock == nil || deps.Log == nil || deps.Registry == nil {
		return nil, errors.New("check billing dependencies: register, projection, clock, log and registry are required")
	}
	m, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	return &Service{config: config, deps: deps, metrics: m, looked: map[string]invoice.Fingerprint{}}, nil
}

// Run rates at once and then every Interval, until ctx ends; then it returns nil. A month that fails is logged and
// counted, and tried again at the next run.
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

// RunOnce records new tenant mappings, rates the current months and finds adjustments; it joins all errors.
func (s *Service) RunOnce(ctx context.Context) error {
	began := s.deps.Clock.Now()
	var errs []error
	noted, err := s.deps.Register.NoteMappings(ctx)
	s.metrics.mappings.Add(float64(noted))
	errs = append(errs, err)
	projected, err := s.deps.Project(ctx)
	s.metrics.projected.Add(float64(projected))
	errs = append(errs, err)
	periods, err := s.Periods(ctx)
	errs = append(errs, err)
	sight := map[string]bool{}
	for _, period := range periods {
		sight[period] = true
		month, err := s.deps.Register.List(ctx, period)
		if err != nil {
			s.metrics.errors.Inc()
			errs = append(errs, err)
			continue
		}
		s.metrics.months.set(month)
	}
	s.metrics.months.keep(sight)
	errs = append(errs, s.lookForAdjustments(ctx))
	s.metrics.duration.Observe(s.deps.Clock.Since(began).Seconds())
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.metrics.runs.Inc()
	s.metrics.lastRun.Set(float64(s.deps.Clock.Now().UnixMilli()) / 1000)
	return nil
}

// Periods are the months to rate, the current one in the book's zone first.
func (s *Service) Periods(ctx context.Context) ([]string, error) {
	book, err := s.deps.Register.Book(ctx)
	if err != nil {
		return nil, err
	}
	current := rating.PeriodOf(s.deps.Clock.Now(), book.Zone)
	periods := make([]string, s.config.Months)
	for i := range periods {
		periods[i] = current.Before(i).String()
	}
	return periods, nil
}

// lookForAdjustments counts the pending adjustments of every month with an invoice, if the ledger has changed since
// the last time.
func (s *Service) lookForAdjustments(ctx context.Context) error {
	periods, err := s.deps.Register.FinalisedPeriods(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, period := range periods {
		errs = append(errs, s.lookAt(ctx, period))
	}
	return errors.Join(errs...)
}

func (s *Service) lookAt(ctx context.Context, period string) error {
	now, err := s.deps.Register.Fingerprint(ctx, period)
	if err != nil {
		s.metrics.errors.Inc()
		return err
	}
	if before, ok := s.looked[period]; ok && before == now {
		return nil
	}
	began := s.deps.Clock.Now()
	found, err := s.deps.Register.Adjustments(ctx, period)
	if err != nil {
		s.metrics.errors.Inc()
		return err
	}
	s.looked[period] = now
	s.metrics.pending.WithLabelValues(period).Set(float64(len(found)))
	for _, a := range found {
		s.deps.Log.Warn("the usage of an invoice differs from the ledger", "invoice", a.Note.Corrects, "reason", a.Reason,
			"note", a.Note.Kind, "total", a.Note.Total, "currency", a.Note.Currency)
	}
	s.deps.Log.Debug("looked for adjustments", "period", period, "pending", len(found), "took",
		s.deps.Clock.Since(began).Round(time.Millisecond))
	return nil
}
