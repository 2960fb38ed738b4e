package statement

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/internal/clock"
)

// DB is what the package needs of the store.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (driver.Rows, error)
}

// Invoices are the documents that pages show, such as an invoice.Register.
// Errors are as in invoice.Drafts.List.
type Invoices interface {
	// Book is the price book in force, whose zones say which months there are.
	Book(ctx context.Context) (*prices.Book, error)
	// List is a month such as "2026-10" with all its documents, those of a tenant
	// in a row by revision, and the platform's account.
	List(ctx context.Context, period string) (*invoice.Month, error)
	// Show is a tenant's invoice or draft, then its notes by revision; there is
	// at least one document, or an error: invoice.ErrNotFound for a tenant
	// without one.
	Show(ctx context.Context, period, tenant string) ([]invoice.Invoice, error)
}

// Deps of the pages; all but Head are needed.
type Deps struct {
	DB       DB
	Invoices Invoices
	// Head stands for all decisions up to a document, by its number; empty: a draft.
	Head  func(number string) string
	Clock clock.Clock
	Log   *slog.Logger
}

type pages struct{ deps Deps }

// Path is where the index of months is.
const Path = "/statements/"

// Register adds the pages to a mux: /statements/, /statements/{period} and
// /statements/{period}/{tenant}.
func Register(mux *http.ServeMux, deps Deps) error {
	if deps.DB == nil || deps.Invoices == nil || deps.Clock == nil || deps.Log == nil {
		return errors.New("register statement pages: store, invoices, clock and log are all needed")
	}
	p := &pages{deps}
	mux.HandleFunc("GET "+Path+"{$}", p.serve(p.months))
	mux.HandleFunc("GET "+Path+"{period}", p.serve(p.fleet))
	mux.HandleFunc("GET "+Path+"{period}/{tenant}", p.serve(p.tenant))
	mux.HandleFunc("GET "+Path+"{period}/{$}", p.serve(p.tenantOrFleet))
	mux.HandleFunc("GET "+Path, p.serve(func(*http.Request) (*page, error) { return nil, errNoPage }))
	return nil
}

// tenantOrFleet answers /statements/2026-10/?tenant=.., the way to tenants whose
// name can't be a segment of a path.
func (p *pages) tenantOrFleet(r *http.Request) (*page, error) {
	if tenant := r.URL.Query().Get("tenant"); tenant != "" {
		return p.statement(r.Context(), r.PathValue("period"), tenant)
	}
	return p.fleet(r)
}

func (p *pages) tenant(r *http.Request) (*page, error) {
	return p.statement(r.Context(), r.PathValue("period"), r.PathValue("tenant"))
}
