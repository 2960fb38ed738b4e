package guard

import (
	"fmt"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/gputally/gputally/internal/trust"
)

// refuse answers requests that no handler may see.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request) bool {
	if !g.hostAllowed(r.Host) {
		g.metrics.refused.WithLabelValues(reasonHost).Inc()
		WriteProblem(w, http.StatusMisdirectedRequest,
			fmt.Sprintf("host %q is not a name of this service: use 127.0.0.1 or localhost", r.Host))
		return true
	}
	if onlyReads(r) && r.Method != http.MethodGet && r.Method != http.MethodHead {
		g.metrics.refused.WithLabelValues(reasonRead).Inc()
		WriteProblem(w, http.StatusForbidden, "this address is read-only, since every user of the machine can reach it: "+
			"decide with gputally's commands, or on the service's Unix socket (http.socket of the configuration; "+
			"http_socket in run.json of a data directory), which only its own user can open")
		return true
	}
	if onlyReads(r) && r.Body != nil && r.Body != http.NoBody { // bodies share memory with those of decisions
		w.Header().Set("Connection", "close")
		WriteProblem(w, http.StatusBadRequest, "GET and HEAD requests must not have a body")
		return true
	}
	if err := g.origins.Check(r); err != nil {
		g.metrics.refused.WithLabelValues(reasonOrigin).Inc()
		WriteProblem(w, http.StatusForbidden, "cross-site requests are not allowed")
		return true
	}
	if probe(r) {
		return false
	}
	if wait, ok := g.clients.take(clientOf(r), g.deps.Clock.Now()); !ok {
		g.metrics.refused.WithLabelValues(reasonRate).Inc()
		retryAfter(w, wait)
		WriteProblem(w, http.StatusTooManyRequests, fmt.Sprintf("more than %d requests a second", g.cfg.RatePerSecond))
		return true
	}
	return false
}

func (g *Guard) hostAllowed(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	return trust.Loopback(name) ||
		slices.ContainsFunc(g.cfg.Hosts, func(allowed string) bool { return strings.EqualFold(name, allowed) })
}

// noRoute answers requests that mux would redirect or answer in plain text.
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

// clean returns whether mux would take a path as it is, without redirecting.
func clean(escaped string) bool {
	cleaned := path.Clean(escaped)
	return escaped == cleaned || cleaned != "/" && escaped == cleaned+"/"
}

// refusal records mux's answer to a request without a route.
type refusal struct{ header http.Header }

func (r *refusal) Header() http.Header         { return r.header }
func (r *refusal) Write(p []byte) (int, error) { return len(p), nil }
func (r *refusal) WriteHeader(int)             {}
