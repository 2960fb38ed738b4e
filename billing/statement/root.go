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
	"github.com/gputally/gputally/internal/decisions"
)

// DB reads from the store.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (driver.Rows, error)
}

// Invoices are the documents that pages show, such as an invoice.Register.
// Errors are as in invoice.Drafts.List.
type Invoices interface {
	// Book returns the price book in force, whose zones determine the months.
	Book(ctx context.Context) (*prices.Book, error)
	// List returns a month such as "2026-10" with all its documents, a tenant's consecutively by revision, and the
	// platform's account.
	List(ctx context.Context, period string) (*invoice.Month, error)
	// Show returns a tenant's invoice or draft, then its notes by revision: at least one document, or an error;
	// invoice.ErrNotFound for a tenant without one.
	Show(ctx context.Context, period, tenant string) ([]invoice.Invoice, error)
}

// Deps are the pages' dependencies; all but Head and Marks are required.
type Deps struct {
	DB       DB
	Invoices Invoices
	// Head identifies all decisions up to a document, by its number; empty: a draft.
	Head func(number string) string
	// Marks is what people have said of a finding; nil: nothing.
	Marks func(decisions.Target) decisions.Marks
	Clock clock.Clock
	Log   *slog.Logger
}

type pages struct{ deps Deps }

// Path is the path of the index of months.
const Path = "/statements/"

// Register adds the pages to a mux: /statements/, /statements/{period} and
// /statements/{period}/{tenant}.
func Register(mux *http.ServeMux, deps Deps) error {
	if deps.DB == nil || deps.Invoices == nil || deps.Clock == nil || deps.Log == nil {
		return errors.New("register statement pages: store, invoices, clock and log are required")
	}
	p := &pages{deps}
	mux.HandleFunc("GET "+Path+"{$}", p.serve(p.months))
	mux.HandleFunc("GET "+Path+"{period}", p.serve(p.fleet))
	mux.HandleFunc("GET "+Path+"{period}/{tenant}", p.serve(p.tenant))
	mux.HandleFunc("GET "+Path+"{period}/{$}", p.serve(p.tenantOrFleet))
	mux.HandleFunc("GET "+Path, p.serve(func(*http.Request) (*page, error) { return nil, errNoPage }))
	return nil
}

// tenantOrFleet answers /statements/2026-10/?tenant=.., for tenants whose name can't be a segment of a path.
func (p *pages) tenantOrFleet(r *http.Request) (*page, error) {
	if tenant := r.URL.Query().Get("tenant"); tenant != "" {
		return p.statement(r.Context(), r.PathValue("period"), tenant)
	}
	return p.fleet(r)
}

func (p *pages) tenant(r *http.Request) (*page, error) {
	return p.statement(r.Context(), r.PathValue("period"), r.PathValue("tenant"))
}
