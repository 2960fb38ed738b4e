package attribution

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/internal/clock"
)

// Deps are a Tracker's dependencies.
type Deps struct {
	Node    string   // whose batches get owners
	Readers []Reader // the first that names an owner decides
	// Info returns the boards' minor numbers; may be nil.
	Info     func() source.Info
	Clock    clock.Clock
	Log      *slog.Logger
	Registry prometheus.Registerer
}

// Tracker polls readers and adds holds to batches. Run and Attribute may be used concurrently.
type Tracker struct {
	cfg     Config
	deps    Deps
	metrics *metrics

	mu       sync.Mutex
	lines    []*timeline
	failing  map[string]bool      // readers whose last poll failed
	warned   map[string]time.Time // time of the last warning, by subject
	seen     map[string]time.Time // devices that were found, by key, and when last
	lastFail string               // why the last slot failed; empty: it did not
}

// New returns a Tracker that polls nothing before Poll or Run.
func New(cfg Config, deps Deps) (*Tracker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure attribution: %w", err)
	}
	if len(deps.Readers) == 0 || deps.Node == "" {
		return nil, fmt.Errorf("configure attribution: %d readers for node %q: both are needed", len(deps.Readers), deps.Node)
	}
	t := &Tracker{
		cfg: cfg, deps: deps, metrics: newMetrics(deps.Registry, deps.Readers),
		failing: map[string]bool{}, warned: map[string]time.Time{}, seen: map[string]time.Time{},
	}
	for _, r := range deps.Readers {
		t.lines = append(t.lines, newTimeline(r))
	}
	return t, nil
}

// Run polls until ctx ends; then it returns nil.
func (t *Tracker) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		now := t.deps.Clock.Now()
		next := now.Truncate(t.cfg.Poll).Add(t.cfg.Poll)
		if clock.Sleep(ctx, t.deps.Clock, next.Sub(now)) != nil {
			return nil
		}
		t.Poll(ctx)
	}
	return nil
}

// Poll polls every reader once, concurrently.
func (t *Tracker) Poll(ctx context.Context) {
	var wg sync.WaitGroup
	for _, l := range t.lines {
		wg.Go(func() { t.poll(ctx, l) })
	}
	wg.Wait()
}

func (t *Tracker) poll(ctx context.Context, l *timeline) {
	name := l.reader.Name()
	start := t.deps.Clock.Now()
	asked, cancel := context.WithTimeout(ctx, t.cfg.Timeout)
	defer cancel()
	snap, err := l.reader.Read(asked)
	if err == nil {
		err = snap.check()
	}
	if ctx.Err() != nil {
		return // cancelled by a stop: neither success nor failure
	}
	t.metrics.duration.WithLabelValues(name).Observe(t.deps.Clock.Since(start).Seconds())
	// When it returns, an answer is certainly valid for both what it lists and what it doesn't. Slots are split at
	// whole ms.
	at := t.deps.Clock.Now()
	if !snap.At.IsZero() {
		at = snap.At
	}
	at = at.Round(0).Truncate(time.Millisecond)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.logChange(name, err)
	if err != nil {
		t.metrics.polls.WithLabelValues(name, "error").Inc()
		return
	}
	t.metrics.polls.WithLabelValues(name, "ok").Inc()
	t.metrics.lastGood.WithLabelValues(name).Set(float64(at.UnixMilli()) / 1000)
	t.metrics.holdings.WithLabelValues(name).Set(float64(len(snap.Holdings)))
	l.observe(at, snap)
}

// logChange logs the beginning and the end of a reader's failure, once each.
func (t *Tracker) logChange(name string, err error) {
	switch {
	case err != nil && !t.failing[name]:
		t.deps.Log.Error("reading owners failed: slots count as unobserved, not as free, until it succeeds", "reader", name,
			"error", err)
	case err == nil && t.failing[name]:
		t.deps.Log.Info("reading owners succeeds again", "reader", name)
	}
	t.failing[name] = err != nil
}

var errNoOwner = errors.New("holding without an owner")

// check refuses an answer without a device or an owner.
func (s Snapshot) check() error {
	for i, h := range s.Holdings {
		if h.Device == (Device{}) {
			return fmt.Errorf("holdings[%d] names no device", i)
		}
		if h.Owner == nil {
			return fmt.Errorf("holdings[%d] (%s): %w", i, h.Device, errNoOwner)
		}
	}
	return nil
}

// unknown returns the reader for which some of [from, to) is unknown; empty: none.
func (t *Tracker) unknown(from, to time.Time) string {
	for _, l := range t.lines {
		if since, ok := l.known(from, to, t.cfg.StaleAfter); !ok {
			if since.IsZero() {
				return l.reader.Name() + " has not answered yet"
			}
			return fmt.Sprintf("%s did not answer for more than %s after %s", l.reader.Name(), t.cfg.StaleAfter,
				since.UTC().Format(time.RFC3339Nano))
		}
	}
	return ""
}
