package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/gputally/gputally/internal/clock"
)

// Deps are a guard's dependencies; all are required.
type Deps struct {
	Clock    clock.Clock
	Log      *slog.Logger
	Registry prometheus.Registerer
}

// Guard checks requests before handlers see them.
type Guard struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	origins *http.CrossOriginProtection
	clients *limiter
	places  *places
	bodies  *semaphore.Weighted // received bytes of all bodies
	// Unsent bytes of all large answers: metrics, and others to read-only clients, and others to clients that may
	// decide.
	unreadMetrics, unreadReads, unsent *semaphore.Weighted
}

// New validates configuration and dependencies.
func New(cfg Config, deps Deps) (*Guard, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("make HTTP guard: %w", err)
	}
	if deps.Clock == nil || deps.Log == nil || deps.Registry == nil {
		return nil, errors.New("make HTTP guard: clock, log and registry are required")
	}
	return &Guard{
		cfg: cfg, deps: deps, metrics: newMetrics(deps.Registry), origins: http.NewCrossOriginProtection(),
		clients: newLimiter(cfg.RatePerSecond, cfg.Burst), places: newPlaces(cfg.InFlight, cfg.InFlightPerClient),
		bodies: semaphore.NewWeighted(maxBodiesBytes),
		unsent: semaphore.NewWeighted(maxUnsentBytes), unreadReads: semaphore.NewWeighted(maxUnsentBytes),
		unreadMetrics: semaphore.NewWeighted(maxMetricsBytes),
	}, nil
}

// Handler serves the routes of mux behind the guard.
func (g *Guard) Handler(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A copy of the request is passed on; the pattern is set for the metrics of the caller.
		inner := r.Clone(r.Context())
		defer func() { r.Pattern = inner.Pattern }()
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "private, no-cache")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		if g.refuse(w, inner) || noRoute(w, mux, inner) {
			return
		}
		done, ok := g.readBody(w, inner)
		if !ok {
			return
		}
		defer done()
		g.serve(w, inner, mux)
	})
}

type readOnly struct{}

func onlyReads(r *http.Request) bool { return r.Context().Value(readOnly{}) != nil }

// WithReadOnly marks the requests of connections that every user of the machine can open: only reads are allowed.
func WithReadOnly(ctx context.Context) context.Context {
	return context.WithValue(ctx, readOnly{}, true)
}

// retryAfter sets Retry-After in whole seconds, rounded up.
func retryAfter(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(wait.Seconds())))))
}

// serve waits for a place, calls mux, frees the place and sends the answer.
func (g *Guard) serve(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	ctx, cancel := context.WithTimeout(r.Context(), g.cfg.Timeout)
	defer cancel()
	leave := func() {}
	if !probe(r) {
		var err error
		if leave, err = g.places.take(ctx, clientOf(r)); err != nil {
			g.metrics.refused.WithLabelValues(reasonBusy).Inc()
			retryAfter(w, time.Second)
			WriteProblem(w, http.StatusServiceUnavailable, "too many requests are being answered; retry later")
			return
		}
	}
	defer leave()
	g.metrics.inFlight.Inc()
	defer g.metrics.inFlight.Dec()
	pending := &answer{w: w, clock: g.deps.Clock}
	served := r.WithContext(ctx)
	defer func() { r.Pattern = served.Pattern }()
	if g.panicked(pending, served, mux) {
		if pending.streamed {
			// The answer is incomplete; abort, so that the client notices.
			panic(http.ErrAbortHandler)
		}
		WriteProblem(w, http.StatusInternalServerError, "the request failed; the service's log says why")
		return
	}
	leave()
	g.send(pending, r)
}

// send sends a buffered answer, as slowly as its size allows, without occupying a place.
func (g *Guard) send(pending *answer, r *http.Request) {
	size, memory := int64(pending.body.Len()), g.unsent
	if size <= smallAnswer {
		size = 0
	}
	switch {
	case probe(r):
		memory = g.unreadMetrics
	case onlyReads(r):
		memory = g.unreadReads
	}
	if !memory.TryAcquire(size) {
		g.metrics.refused.WithLabelValues(reasonMemory).Inc()
		retryAfter(pending.w, time.Second)
		WriteProblem(pending.w, http.StatusServiceUnavailable, "too many answers are waiting for their clients; retry later")
		return
	}
	defer memory.Release(size)
	if pending.finish(r) {
		g.metrics.notModified.Inc()
	}
}

// probe returns whether a request is a health probe or a scrape. Probes need no place and have no rate limit, so that
// they are answered when everything else is busy.
func probe(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/-/") || r.URL.Path == "/metrics"
}

func (g *Guard) panicked(w *answer, r *http.Request, mux *http.ServeMux) (panicked bool) {
	defer func() {
		reason := recover()
		if reason == nil {
			return
		}
		panicked = true
		if err, ok := reason.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			return // the handler aborted on purpose
		}
		g.metrics.panics.Inc()
		g.deps.Log.Error("HTTP handler panicked", "route", r.Pattern, "reason", reason, "stack", string(debug.Stack()))
	}()
	mux.ServeHTTP(w, r)
	return false
}
