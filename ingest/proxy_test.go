package ingest_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gputally/gputally/internal/store"
)

// fault is what a proxy does to a request; forward carries it out.
type fault func(w http.ResponseWriter, r *http.Request, forward http.HandlerFunc)

// proxy stands in front of ClickHouse's HTTP interface and hurts what faults
// chooses to.
type proxy struct {
	url  string
	mu   sync.Mutex
	next func(statement string) fault // nil: all goes through
}

// newProxy forwards to the engine on a Unix socket.
func newProxy(t *testing.T, socket string) *proxy {
	t.Helper()
	p := &proxy{}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	forward := func(w http.ResponseWriter, r *http.Request) {
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host, out.RequestURI = "http", "engine", ""
		res, err := transport.RoundTrip(out)
		if err != nil {
			panic(http.ErrAbortHandler) // the client sees what a crashed server shows: nothing
		}
		defer res.Body.Close()
		for key, values := range res.Header {
			w.Header()[key] = values
		}
		w.WriteHeader(res.StatusCode)
		if _, err := io.Copy(w, res.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := p.choose(r.URL.Query().Get("query")); f != nil {
			f(w, r, forward)
			return
		}
		forward(w, r)
	}))
	t.Cleanup(func() { p.hurt(nil); server.Close() })
	p.url = server.URL
	return p
}

func (p *proxy) choose(statement string) fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil {
		return nil
	}
	return p.next(statement)
}

// hurt has next choose the fault of each request from now on.
func (p *proxy) hurt(next func(statement string) fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = next
}

// inserts hurts the first n inserts into a table.
func inserts(table string, n int, f fault) func(string) fault {
	return func(statement string) fault {
		if n == 0 || !strings.HasPrefix(statement, "INSERT INTO "+table+" ") {
			return nil
		}
		n--
		return f
	}
}

// answer is an exception of ClickHouse's, or with code 0 a status alone.
func answer(status, code int, name string) fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		if code > 0 {
			w.Header().Set("X-ClickHouse-Exception-Code", fmt.Sprint(code))
		}
		w.WriteHeader(status)
		if code > 0 {
			fmt.Fprintf(w, "Code: %d. DB::Exception: as a test wants it. (%s)\n", code, name)
		}
	}
}

// refuse ends the connection at once.
func refuse(http.ResponseWriter, *http.Request, http.HandlerFunc) { panic(http.ErrAbortHandler) }

// cut carries the request out and loses the answer.
func cut(_ http.ResponseWriter, r *http.Request, forward http.HandlerFunc) {
	forward(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// hang never answers; held is told that it began, and lets it end.
func hang(held chan struct{}) fault {
	return func(_ http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
		held <- struct{}{}
		<-held
		panic(http.ErrAbortHandler)
	}
}

// through is the same database, by way of the proxy.
func (p *proxy) through(t *testing.T, db *store.DB) *store.DB {
	t.Helper()
	out, err := store.Open(t.Context(), store.Options{Address: p.url, Database: db.Database()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	return out
}
