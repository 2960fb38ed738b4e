package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/prometheus"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/trust"
)

// HistoryFlags select the history of a Prometheus and its destination.
type HistoryFlags struct {
	URL, Cluster, Match, TokenFile, CAFile string
	From, To                               cli.Instant
	Slot                                   time.Duration
}

// ImportPrometheus imports the history of a Prometheus into the ledger.
func ImportPrometheus(ctx context.Context, s *cli.Session, f *HistoryFlags) error {
	cfg, client, err := f.resolve(s.Clock.Now())
	var refused *trust.Error
	switch {
	case errors.As(err, &refused):
		return err
	case err != nil:
		return cli.UsageError(err)
	}
	return app.WithPipeline(ctx, s, app.OpenOrCreate, func(p *app.Pipeline) error {
		f.Cluster = cmp.Or(f.Cluster, p.Config.Cluster.Name)
		slot, own, err := f.slotOf(ctx, p.Access)
		if err != nil {
			return err
		}
		c, err := newCarrier(p)
		if err != nil {
			return err
		}
		if err := c.arrive(ctx); err != nil { // batches of an earlier run
			return err
		}
		cfg.Rules, cfg.AllowCoarse = p.Config.Exporter, own
		src, err := prometheus.New(cfg, prometheus.Deps{
			Cluster: f.Cluster, HTTPClient: client, Clock: s.Clock, Log: s.Log, Registry: p.Registry,
		})
		if err != nil {
			return cli.UsageError(err)
		}
		run := &historyRun{carrier: c, cluster: f.Cluster, source: src, from: cfg.From, to: cfg.To, slot: slot}
		return coarse(run.carryOut(ctx))
	})
}

// resolve evaluates the flags. Its errors are usage errors, but for a *trust.Error.
func (f *HistoryFlags) resolve(now time.Time) (prometheus.Config, *http.Client, error) {
	cfg := prometheus.DefaultConfig()
	cfg.URL, cfg.Match, cfg.From, cfg.To = f.URL, f.Match, f.From.At, f.To.At
	if f.Slot != 0 {
		if err := settings.ValidateSlot(f.Slot); err != nil {
			return cfg, nil, fmt.Errorf("--slot %w", err)
		}
	}
	if cfg.To.After(now) {
		return cfg, nil, fmt.Errorf("--to %s is in the future", &f.To)
	}
	if f.TokenFile != "" {
		var err error
		if cfg.BearerToken, err = trust.ReadSecret(f.TokenFile); err != nil {
			return cfg, nil, fmt.Errorf("--bearer-token-file: %w", err)
		}
	}
	if err := cfg.Validate(); err != nil {
		return cfg, nil, err
	}
	authorities, err := trust.Client(f.CAFile)
	if err != nil {
		return cfg, nil, fmt.Errorf("--ca-file: %w", err)
	}
	return cfg, &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: authorities},
	}, nil
}

// slotOf is the cluster's slot length; own: the cluster exists already, so that the length is fixed.
func (f *HistoryFlags) slotOf(ctx context.Context, a *app.Access) (slot time.Duration, own bool, err error) {
	lengths, err := app.SlotLengths(ctx, a.DB)
	if err != nil {
		return 0, false, err
	}
	slot = time.Duration(lengths[f.Cluster]) * time.Millisecond
	switch own = slot > 0; {
	case own && f.Slot != 0 && f.Slot != slot:
		return 0, false, cli.UsageError(fmt.Errorf("--slot %s: cluster %q has slots of %s", f.Slot, f.Cluster, slot))
	case !own && f.Slot != 0:
		slot = f.Slot
	case !own:
		slot = a.Config.Cluster.Slot
	}
	for _, bound := range []struct {
		name string
		at   *cli.Instant
	}{{"--from", &f.From}, {"--to", &f.To}} {
		if start := source.At(bound.at.At, slot).Start; !start.Equal(bound.at.At) {
			return 0, false, cli.UsageError(fmt.Errorf("%s %s is not a multiple of the slot of %s: %s is",
				bound.name, bound.at, slot, start.Format(time.RFC3339)))
		}
	}
	return slot, own, nil
}

// coarse adds what to do about a slot that is too short.
func coarse(err error) error {
	var interval *prometheus.IntervalError
	if !errors.As(err, &interval) {
		return err
	}
	slot := interval.Interval.Truncate(time.Second)
	for slot < time.Hour && (slot < interval.Interval || time.Hour%slot != 0) {
		slot += time.Second
	}
	return cli.UsageError(fmt.Errorf("%w; give --slot %s and the name of a new cluster", err, slot))
}
