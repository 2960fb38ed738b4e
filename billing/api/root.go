package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/billing/api/guard"
	"github.com/gpuledger/gpuledger/billing/invoice"
	"github.com/gpuledger/gpuledger/billing/prices"
	"github.com/gpuledger/gpuledger/internal/clock"
	"github.com/gpuledger/gpuledger/internal/usage"
)

// Invoices are the documents that the API answers with. Errors are as in
// invoice.Drafts.List.
type Invoices interface {
	// Book is the price book in force.
	Book(ctx context.Context) (*prices.Book, error)
	// List is a month with all its documents, and the platform's account.
	List(ctx context.Context, period string) (*invoice.Month, error)
	// Show is a tenant's invoice of a month, or its draft, and its notes; there is
	// at least one document, or an error such as invoice.ErrNotFound.
	Show(ctx context.Context, period, tenant string) ([]invoice.Invoice, error)
}

// Deps of the API; all are needed.
type Deps struct {
	DB       usage.DB
	Invoices Invoices
	Clock    clock.Clock
	Log      *slog.Logger
	Registry prometheus.Registerer
}

func (d Deps) validate() error {
	if d.DB == nil || d.Invoices == nil || d.Clock == nil || d.Log == nil || d.Registry == nil {
		return errors.New("register finance API: store, invoices, clock, log and registry are all needed")
	}
	return nil
}

type api struct{ deps Deps }

// Prefix is where the API's operations are.
const Prefix = "/api/v1"

// Register adds the API to a mux: its operations, /openapi.json, /docs, and an
// answer to every path that nobody else has. What is asked passes through a
// guard, configured by cfg.
func Register(mux *http.ServeMux, cfg guard.Config, deps Deps) error {
	if err := deps.validate(); err != nil {
		return err
	}
	front, err := guard.New(cfg, guard.Deps{Clock: deps.Clock, Log: deps.Log, Registry: deps.Registry})
	if err != nil {
		return err
	}
	routes := http.NewServeMux()
	h := humago.New(routes, newConfig())
	a := &api{deps: deps}
	a.registerOn(h)
	describe(h.OpenAPI())
	docs, err := renderDocs(h.OpenAPI())
	if err != nil {
		return err
	}
	routes.HandleFunc("GET /docs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		_, _ = w.Write(docs) // the reader hung up: nobody to tell
	})
	routes.Handle("GET /{$}", http.RedirectHandler("/docs", http.StatusFound))
	mux.Handle("/", front.Handler(routes))
	return nil
}

// registerOn adds the operations.
func (a *api) registerOn(h huma.API) {
	h.UseMiddleware(a.check(h))
	get(h, "list-tenants", "/tenants", tagUsage, "Tenants with usage, their time zones and months", a.listTenants)
	get(h, "query-usage", "/usage", tagUsage, "Usage of a range, grouped by columns", a.queryUsage)
	get(h, "list-anomalies", "/anomalies", tagUsage, "Episodes of waste that overlap a range", a.listAnomalies)
	get(h, "list-invoices", "/invoices", tagInvoices, "Invoices, notes and drafts of a month", a.listInvoices)
	get(h, "show-draft", "/drafts/{period}/{tenant}", tagInvoices, "A tenant's draft with its lines, recomputed", a.showDraft)
	get(h, "show-platform", "/platform/{period}", tagInvoices, "The platform's account of a month: what nobody is billed for", a.showPlatform)
	stream(h, "export-chargeback", "/exports/chargeback.csv", "text/csv", "The month's invoice lines as CSV", a.exportChargeback)
}
