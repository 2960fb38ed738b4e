package prometheus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/exporter"
	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/jsonstream"
	"github.com/gputally/gputally/internal/wire"
)

// Deps are a Source's dependencies.
type Deps struct {
	Cluster string
	// HTTPClient has the TLS settings.
	HTTPClient *http.Client
	Clock      clock.Clock
	Log        *slog.Logger
	Registry   prom.Registerer
}

// Source reads slot after slot of a Prometheus' history.
type Source struct {
	cfg      Config
	deps     Deps
	metrics  *metrics
	client   *client
	history  *exporter.History
	selector string
	display  string // the selector, for display

	led     bool            // the lead-in was read
	renamed map[string]bool // jobs whose exporters' labels were renamed
	window  *window
	length  time.Duration // of the next window
	ceiling time.Duration // of windows: longer ones were too large
	checked bool          // the scrape interval was compared with the slot
}

var _ source.Source = (*Source)(nil)

// IntervalError means that the scrape interval is longer than the slot: most slots would be unobserved.
type IntervalError struct{ Interval, Slot time.Duration }

func (e *IntervalError) Error() string {
	return fmt.Sprintf("the exporters were scraped every %s, which is more than the slot of %s: most of the time would "+
		"be unobserved", e.Interval, e.Slot)
}

// New returns a source that queries nothing until Read.
func New(cfg Config, deps Deps) (*Source, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure prometheus source: %w", err)
	}
	base, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("configure prometheus source: %w", unwrapURL(err))
	}
	history, err := exporter.NewHistory(cfg.Rules, exporter.Deps{
		Cluster: deps.Cluster, Clock: deps.Clock, Log: deps.Log, Registry: deps.Registry,
	})
	if err != nil {
		return nil, err
	}
	s := &Source{
		cfg: cfg, deps: deps, metrics: newMetrics(deps.Registry), history: history,
		renamed: map[string]bool{}, length: cfg.FirstWindow, ceiling: cfg.MaxWindow,
		selector: selectorOf(strings.Join(quoted(field.Names()), "|"), cfg.Match),
		display:  selectorOf(anyName, cfg.Match),
	}
	s.client = &client{
		base: base, http: exporter.NoRedirects(deps.HTTPClient), token: cfg.BearerToken,
		limit: cfg.BodyLimitBytes, timeout: cfg.Timeout,
		attempts: cfg.Attempts, retryMin: cfg.RetryMin, clock: deps.Clock, metrics: s.metrics,
	}
	return s, nil
}

// anyName matches the names of all fields, and some others.
const anyName = "DCGM_FI_.*|dcgm_.*"

func quoted(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = regexp.QuoteMeta(n)
	}
	return out
}

// selectorOf is the selector of series by name; match and more restrict it.
func selectorOf(names, match string, more ...string) string {
	parts := []string{fmt.Sprintf("__name__=~%q", names)}
	match = strings.TrimSpace(match)
	match = strings.TrimSuffix(strings.TrimPrefix(match, "{"), "}")
	if match = strings.Trim(match, " \t,"); match != "" {
		parts = append(parts, match)
	}
	return "{" + strings.Join(append(parts, more...), ",") + "}"
}

// Read returns the batches of the slot's scrapes, with origin IMPORT and the window [From, To). Slots must be inside
// it and ascend. After a QueryError or an IntervalError nothing is known of the slot; any other error comes with
// batches and lists GPUs that were left out.
func (s *Source) Read(ctx context.Context, slot source.Slot) ([]*wire.Batch, error) {
	if slot.Start.Before(s.cfg.From) || slot.End().After(s.cfg.To) {
		return nil, fmt.Errorf("read slot %s: lies outside of %s to %s", slot.Start, s.cfg.From, s.cfg.To)
	}
	if err := s.leadIn(ctx, slot); err != nil {
		return nil, err
	}
	batches, err := s.read(ctx, slot)
	for _, b := range batches {
		b.Origin = wire.Origin_ORIGIN_IMPORT
		b.WindowFromMs, b.WindowToMs = s.cfg.From.UnixMilli(), s.cfg.To.UnixMilli()
		b.ClusterSlotMs = b.SlotMs
	}
	return batches, err
}

// leadIn reads the time before the first slot, once: its batches are dropped, the counters' values are kept.
func (s *Source) leadIn(ctx context.Context, first source.Slot) error {
	if s.led {
		return nil
	}
	if err := s.learnRenamed(ctx); err != nil {
		return err
	}
	lead := s.cfg.LeadIn.Truncate(first.Length)
	for slot := source.At(first.Start.Add(-lead), first.Length); slot.Start.Before(first.Start); slot = slot.Next() {
		_, err := s.read(ctx, slot)
		var query *QueryError
		var interval *IntervalError
		if errors.As(err, &query) || errors.As(err, &interval) {
			return err
		}
	}
	s.led = true
	return nil
}

// learnRenamed finds the jobs in which a Prometheus renamed the exporters' own labels. In a slot in which all GPUs of
// a node are free its rows don't show that, and the plain labels would make the exporter's pod their owner.
func (s *Source) learnRenamed(ctx context.Context) error {
	var selectors []string
	for _, label := range exporter.RenamedLabels {
		selectors = append(selectors, selectorOf(anyName, s.cfg.Match, label+`!=""`))
	}
	from := s.cfg.From.Add(-s.cfg.LeadIn)
	jobs, err := s.client.labelValues(ctx, "job", selectors, from, s.cfg.To)
	if err != nil {
		return s.failed(ctx, "the jobs of "+strings.Join(selectors, " or "), from, s.cfg.To, err)
	}
	for _, job := range jobs {
		s.renamed[job] = true
	}
	return nil
}

func (s *Source) failed(ctx context.Context, query string, from, to time.Time, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &QueryError{URL: s.client.shown(), Query: query, From: from, To: to, Err: err}
}

func (s *Source) read(ctx context.Context, slot source.Slot) ([]*wire.Batch, error) {
	if s.window == nil || !slot.Start.Before(s.window.to) {
		if err := s.fetch(ctx, slot); err != nil {
			return nil, err
		}
	}
	seen, superseded := s.window.slot(slot.End().UnixMilli())
	s.metrics.superseded.Add(float64(superseded))
	expositions := make([]exporter.Exposition, 0, len(seen))
	for _, e := range seen {
		if len(e.taken) > 0 {
			expositions = append(expositions, e.exposition(s.renamed[e.job]))
		}
	}
	return s.history.Batches(slot, expositions)
}

// fetch reads the window that begins with a slot. It also ends with one, so that all samples of a slot are in one
// window.
func (s *Source) fetch(ctx context.Context, slot source.Slot) error {
	for {
		length := max(s.length.Truncate(slot.Length), slot.Length)
		to := slot.Start.Add(length)
		if slot.Start.Before(s.cfg.From) && to.After(s.cfg.From) {
			to = s.cfg.From // the lead-in's own window: the next one is planned by it
		}
		if to.After(s.cfg.To) {
			to = s.cfg.To
		}
		s.metrics.windows.Set(to.Sub(slot.Start).Seconds())
		got, err := s.client.query(ctx, s.selector, slot.Start, to)
		if errors.Is(err, jsonstream.ErrTooLarge) && length > slot.Length {
			s.length, s.ceiling = length/2, length/2
			continue
		}
		if err != nil {
			return s.failed(ctx, s.display, slot.Start, to, err)
		}
		return s.take(newWindow(slot.Start, to, got), slot.Length)
	}
}

// take sets the current window, and plans the next one's length.
func (s *Source) take(w *window, slot time.Duration) error {
	s.window = w
	s.metrics.points.Add(float64(w.points))
	length := w.to.Sub(w.from)
	planned := 8 * length
	if w.points > 0 {
		planned = min(planned, time.Duration(float64(length)*float64(s.cfg.PointsPerQuery)/float64(w.points)))
	}
	s.length = max(slot, min(planned, s.ceiling))
	return s.check(w, slot)
}

// check compares the scrape interval with the slot before the first batch, so that a coarse history is refused as a
// whole.
func (s *Source) check(w *window, slot time.Duration) error {
	if s.checked {
		return nil
	}
	interval := w.interval()
	s.checked = interval > 0
	if interval <= slot {
		return nil
	}
	if !s.cfg.AllowCoarse {
		return &IntervalError{Interval: interval, Slot: slot}
	}
	s.deps.Log.Warn("history is coarser than the slot: the slots in between are unobserved", "scrape_interval",
		interval, "slot", slot)
	return nil
}
