package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/billing/export/focus"
	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/usage"
)

// Deps are the API's dependencies; all but Focus are required.
type Deps struct {
	DB       usage.DB
	Register *invoice.Register
	// Decisions are those of the register.
	Decisions *decisions.Log
	Clock     clock.Clock
	Log       *slog.Logger
	Registry  prometheus.Registerer
	// Explain explains a GPU-hour, as a value for JSON. Its errors have a class.
	Explain func(ctx context.Context, q *Explanation, hour time.Time) (any, error)
	// Focus has the provider's names in FOCUS exports; zero: gputally.
	Focus focus.Config
}

func (d Deps) validate() error {
	if d.DB == nil || d.Register == nil || d.Decisions == nil || d.Clock == nil || d.Log == nil || d.Registry == nil ||
		d.Explain == nil {
		return errors.New("mount finance API: store, register, decisions, clock, log, registry and explain are required")
	}
	return nil
}

type api struct {
	deps    Deps
	metrics *metrics
}

// Prefix is the path of the API's operations.
const Prefix = "/api/v1"

// Mount adds the API to a mux behind a guard: its operations, /openapi.json and /docs.
func Mount(mux *http.ServeMux, deps Deps) error {
	if err := deps.validate(); err != nil {
		return err
	}
	h := humago.New(mux, newConfig())
	m, err := newMetrics(deps.Registry)
	if err != nil {
		return err
	}
	a := &api{deps: deps, metrics: m}
	a.registerOn(h)
	describe(h.OpenAPI())
	docs, err := renderDocs(h.OpenAPI())
	if err != nil {
		return err
	}
	mux.HandleFunc("GET /docs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy",
			"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		_, _ = w.Write(docs) // the client disconnected
	})
	mux.Handle("GET /{$}", http.RedirectHandler("/docs", http.StatusFound))
	return nil
}

// registerOn adds the operations.
func (a *api) registerOn(h huma.API) {
	h.UseMiddleware(a.check(h))
	for _, r := range a.routes() {
		r.register(h)
	}
}

// Outcomes of a requested decision.
const (
	outcomeDecided  = "decided"
	outcomeReplayed = "replayed" // by the same key before
	outcomeAlready  = "already"  // by another key before
	outcomeRefused  = "refused"
	outcomeFailed   = "failed" // unknown whether it was made
)

// metrics counts decisions; requests are counted by the HTTP server.
type metrics struct{ decisions *prometheus.CounterVec }

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gputally_api_decisions_total", Help: "Decisions requested from the finance API, by kind and outcome.",
	}, []string{"kind", "outcome"})}
	for _, kind := range []decisions.Kind{
		decisions.KindInvoice, decisions.KindNote, decisions.KindApproval,
		decisions.KindPriceBook, decisions.KindFinding,
	} {
		for _, outcome := range []string{outcomeDecided, outcomeReplayed, outcomeAlready, outcomeRefused, outcomeFailed} {
			m.decisions.WithLabelValues(string(kind), outcome)
		}
	}
	if err := registry.Register(m.decisions); err != nil {
		return nil, fmt.Errorf("register finance API metrics: %w", err)
	}
	return m, nil
}
