package guard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/clock"
)

// Deps of a guard; all are needed.
type Deps struct {
	Clock    clock.Clock
	Log      *slog.Logger
	Registry prometheus.Registerer
}

// Guard stands in front of handlers.
type Guard struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	origins *http.CrossOriginProtection
	clients *limiter
	places  chan struct{}
}

// New checks configuration and dependencies.
func New(cfg Config, deps Deps) (*Guard, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("make API guard: %w", err)
	}
	if deps.Clock == nil || deps.Log == nil || deps.Registry == nil {
		return nil, errors.New("make API guard: clock, log and registry are all needed")
	}
	m, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	return &Guard{
		cfg: cfg, deps: deps, metrics: m, origins: http.NewCrossOriginProtection(),
		clients: newLimiter(cfg.RatePerSecond, cfg.Burst), places: make(chan struct{}, cfg.InFlight),
	}, nil
}

// Handler serves the routes of mux.
func (g *Guard) Handler(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A copy of the request goes on; the pattern is for who measures outside.
		inner := r.Clone(r.Context())
		defer func() { r.Pattern = inner.Pattern }()
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "private, no-cache")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		if g.refuse(w, inner) || noRoute(w, mux, inner) || noBody(w, inner) {
			return
		}
		g.serve(w, inner, mux)
	})
}

// refuse answers what no handler may see.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request) bool {
	if !g.hostAllowed(r.Host) {
		g.metrics.refused.WithLabelValues(reasonHost).Inc()
		WriteProblem(w, http.StatusMisdirectedRequest, fmt.Sprintf("host %q is not a name of this service: use 127.0.0.1 or localhost", r.Host))
		return true
	}
	if err := g.origins.Check(r); err != nil {
		g.metrics.refused.WithLabelValues(reasonOrigin).Inc()
		WriteProblem(w, http.StatusForbidden, "a page of another site may not ask this")
		return true
	}
	if wait, ok := g.clients.take(clientOf(r), g.deps.Clock.Now()); !ok {
		g.metrics.refused.WithLabelValues(reasonRate).Inc()
		retryAfter(w, wait)
		WriteProblem(w, http.StatusTooManyRequests, fmt.Sprintf("more than %d requests a second", g.cfg.RatePerSecond))
		return true
	}
	return false
}

// retryAfter is in whole seconds, and never too early.
func retryAfter(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(wait.Seconds())))))
}

func (g *Guard) hostAllowed(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if addr, err := netip.ParseAddr(name); err == nil && addr.Unmap().IsLoopback() {
		return true
	}
	return strings.EqualFold(name, "localhost") ||
		slices.ContainsFunc(g.cfg.Hosts, func(allowed string) bool { return strings.EqualFold(name, allowed) })
}

// noRoute answers where mux would redirect, or answer in plain text.
func noRoute(w http.ResponseWriter, mux *http.ServeMux, r *http.Request) bool {
	if escaped := r.URL.EscapedPath(); escaped == "" || !clean(escaped) {
		WriteProblem(w, http.StatusNotFound, "no such path")
		return true
	}
	handler, pattern := mux.Handler(r)
	if pattern != "" {
		return false
	}
	refusal := &refusal{header: http.Header{}}
	handler.ServeHTTP(refusal, r)
	if allow := refusal.header.Get("Allow"); allow != "" {
		w.Header().Set("Allow", allow)
		WriteProblem(w, http.StatusMethodNotAllowed, fmt.Sprintf("method %s is not allowed here, only %s", r.Method, allow))
		return true
	}
	WriteProblem(w, http.StatusNotFound, "no such path")
	return true
}

// clean says that a path is in the form that mux takes it for.
func clean(escaped string) bool {
	cleaned := path.Clean(escaped)
	return escaped == cleaned || cleaned != "/" && escaped == cleaned+"/"
}

// refusal learns what mux has to say about a request without a route.
type refusal struct{ header http.Header }

func (r *refusal) Header() http.Header         { return r.header }
func (r *refusal) Write(p []byte) (int, error) { return len(p), nil }
func (r *refusal) WriteHeader(int)             {}

// noBody reads a request's body whole, or answers why it can't. Whoever sends
// slowly takes no place meanwhile.
func noBody(w http.ResponseWriter, r *http.Request) bool {
	if r.Body == nil || r.Body == http.NoBody {
		return false
	}
	if r.ContentLength > MaxBodyBytes {
		w.Header().Set("Connection", "close") // the body is not read
		WriteProblem(w, http.StatusRequestEntityTooLarge, tooLong)
		return true
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	var long *http.MaxBytesError
	var late net.Error
	switch {
	case errors.As(err, &long):
		WriteProblem(w, http.StatusRequestEntityTooLarge, tooLong)
	case errors.As(err, &late) && late.Timeout():
		WriteProblem(w, http.StatusRequestTimeout, "the body took too long to come")
	case err != nil:
		WriteProblem(w, http.StatusBadRequest, "the body ended before its end")
	default:
		r.Body = io.NopCloser(bytes.NewReader(body))
		return false
	}
	return true
}

var tooLong = fmt.Sprintf("the body is longer than %d bytes", MaxBodyBytes)

// serve waits for a place and lets mux answer.
func (g *Guard) serve(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	ctx, cancel := context.WithTimeout(r.Context(), g.cfg.Timeout)
	defer cancel()
	select {
	case g.places <- struct{}{}:
		defer func() { <-g.places }()
	case <-ctx.Done():
		g.metrics.refused.WithLabelValues(reasonBusy).Inc()
		retryAfter(w, time.Second)
		WriteProblem(w, http.StatusServiceUnavailable, "too many requests are being answered")
		return
	}
	g.metrics.inFlight.Inc()
	defer g.metrics.inFlight.Dec()
	pending := &answer{w: w}
	served := r.WithContext(ctx)
	defer func() { r.Pattern = served.Pattern }()
	if g.panicked(pending, served, mux) {
		if pending.streamed {
			// What was sent is not all: the client must not take it for that.
			panic(http.ErrAbortHandler)
		}
		WriteProblem(w, http.StatusInternalServerError, "the request failed; the service's log says why")
		return
	}
	if pending.finish(r) {
		g.metrics.notModified.Inc()
	}
}

func (g *Guard) panicked(w *answer, r *http.Request, mux *http.ServeMux) (panicked bool) {
	defer func() {
		reason := recover()
		if reason == nil {
			return
		}
		panicked = true
		if err, ok := reason.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			return // the handler has said what there is to say
		}
		g.metrics.panics.Inc()
		g.deps.Log.Error("API handler panicked", "route", r.Pattern, "reason", reason, "stack", string(debug.Stack()))
	}()
	mux.ServeHTTP(w, r)
	return false
}
