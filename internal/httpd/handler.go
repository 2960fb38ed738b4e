package httpd

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
)

// readyCheck says whether a part of the service can do its work.
type readyCheck struct {
	name string
	test func(ctx context.Context) error
}

// AddReady makes /-/ready depend on test; name is what it calls the part.
func (s *Server) AddReady(name string, test func(ctx context.Context) error) {
	s.ready = append(s.ready, readyCheck{name, test})
}

func healthy(w http.ResponseWriter, _ *http.Request) {
	writeText(w, http.StatusOK, "healthy\n")
}

// serveReady answers 200 "ready", or 503 with a line per part that is not.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	status, text := http.StatusOK, ""
	for _, c := range s.ready {
		if err := c.test(ctx); err != nil {
			status = http.StatusServiceUnavailable
			text += fmt.Sprintf("%s: %v\n", c.name, err)
		}
	}
	if status == http.StatusOK {
		text = "ready\n"
	}
	writeText(w, status, text)
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // the client has gone
}

// handler is the mux behind the guard, measured.
func (s *Server) handler() http.Handler {
	guarded := s.guard.Handler(s.mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := s.deps.Clock.Now()
		recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		guarded.ServeHTTP(recorder, r)
		// The mux sets the pattern on r; a path it does not know has none, and
		// is not a label of its own.
		s.metrics.requests.WithLabelValues(r.Pattern, method(r), strconv.Itoa(recorder.status)).Inc()
		s.metrics.seconds.WithLabelValues(r.Pattern).Observe(s.deps.Clock.Since(start).Seconds())
	})
}

// method bounds the label's values: a client may send any word.
func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return "other"
}

type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (w *statusRecorder) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach Flush and deadlines.
func (w *statusRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
