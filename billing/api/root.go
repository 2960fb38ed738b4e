package api

import (
	_ "embed"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/gpuledger/gpuledger/billing/invoice"
	"github.com/gpuledger/gpuledger/internal/usage"
)

// Deps of the API; all are needed.
type Deps struct {
	DB     usage.DB
	Drafts *invoice.Drafts
	Log    *slog.Logger
}

type api struct{ deps Deps }

//go:embed docs.html
var docsHTML []byte

// Register adds the API's routes to a mux: /api/v1/invoices, /api/v1/usage,
// /api/v1/anomalies, /openapi.json and /docs.
func Register(mux *http.ServeMux, deps Deps) error {
	if deps.DB == nil || deps.Drafts == nil || deps.Log == nil {
		return errors.New("register finance API: store, drafts and log are all needed")
	}
	registerOn(humago.New(mux, newConfig()), deps)
	mux.HandleFunc("GET /docs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'; script-src 'self'; style-src 'unsafe-inline'")
		_, _ = w.Write(docsHTML) // the reader hung up: nobody to tell
	})
	mux.Handle("GET /{$}", http.RedirectHandler("/docs", http.StatusFound))
	return nil
}

// newConfig leaves out what would load scripts from elsewhere or add links to
// answers.
func newConfig() huma.Config {
	config := huma.DefaultConfig("gpuledger finance API", "1.0.0")
	config.Info.Description = "Read-only. Money and quantities are decimal strings; hours are UTC; a period is a calendar month in the tenant's zone."
	config.DocsPath = ""
	config.SchemasPath = ""
	config.CreateHooks = nil
	return config
}

func registerOn(h huma.API, deps Deps) {
	a := &api{deps: deps}
	h.UseMiddleware(func(ctx huma.Context, next func(huma.Context)) {
		if detail := ambiguous(ctx.URL().RawQuery); detail != nil {
			_ = huma.WriteErr(h, ctx, http.StatusUnprocessableEntity, "invalid parameter "+detail.Location, detail) // the caller hung up
			return
		}
		next(ctx)
	})
	huma.Register(h, operation("list-invoices", "/api/v1/invoices", "Draft invoices of a month, and the platform's account"), a.listInvoices)
	huma.Register(h, operation("show-invoice", "/api/v1/invoices/{period}/{tenant}", "One tenant's draft invoice with its lines"), a.showInvoice)
	huma.Register(h, operation("query-usage", "/api/v1/usage", "Usage of a range, grouped by columns"), a.queryUsage)
	huma.Register(h, operation("list-anomalies", "/api/v1/anomalies", "Episodes of waste that overlap a range"), a.listAnomalies)
}

// ambiguous names a parameter that could be read in two ways: repeated, or
// empty, which is neither a value nor left out.
func ambiguous(rawQuery string) *huma.ErrorDetail {
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return &huma.ErrorDetail{Location: "query", Message: "is not a query string", Value: rawQuery}
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch values := query[name]; {
		case len(values) > 1:
			return &huma.ErrorDetail{Location: "query." + name, Message: "named more than once", Value: values}
		case values[0] == "":
			return &huma.ErrorDetail{Location: "query." + name, Message: "is empty; give a value or leave it out", Value: ""}
		}
	}
	return nil
}

func operation(id, path, summary string) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: http.MethodGet, Path: path, Summary: summary,
		RejectUnknownQueryParameters: true,
		Errors:                       []int{http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity},
	}
}
