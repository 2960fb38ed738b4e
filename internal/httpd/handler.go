package httpd

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	dto "github.com/prometheus/client_model/go"
)

// readyCheck tests whether a part of the service is ready.
type readyCheck struct {
	name string
	test func(ctx context.Context) error
}

// AddReady makes /-/ready depend on test; name is the part's name in the answer.
func (s *Server) AddReady(name string, test func(ctx context.Context) error) {
	s.ready = append(s.ready, readyCheck{name, test})
}

func healthy(w http.ResponseWriter, _ *http.Request) {
	writeText(w, http.StatusOK, "healthy\n")
}

// serveReady answers 200 "ready", or 503 with a line per part that is not ready. Requests during a check share its
// result, since probes have no rate limit.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	text, _, _ := s.probes.Do("ready", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), readyTimeout)
		defer cancel()
		return s.unready(ctx), nil
	})
	if text == "" {
		writeText(w, http.StatusOK, "ready\n")
		return
	}
	writeText(w, http.StatusServiceUnavailable, fmt.Sprint(text))
}

func (s *Server) gather() ([]*dto.MetricFamily, error) {
	families, err, _ := s.probes.Do("metrics", func() (any, error) { return s.deps.Registry.Gather() })
	return families.([]*dto.MetricFamily), err
}

// unready returns a line per part that is not ready.
func (s *Server) unready(ctx context.Context) (text string) {
	for _, c := range s.ready {
		if err := c.test(ctx); err != nil {
			text += fmt.Sprintf("%s: %v\n", c.name, err)
		}
	}
	return text
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // the client has disconnected
}

// handler is the mux behind the guard, with metrics.
func (s *Server) handler() http.Handler {
	guarded := s.guard.Handler(s.mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := s.deps.Clock.Now()
		recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		guarded.ServeHTTP(recorder, r)
		// The mux sets the pattern on r; an unknown path has none, so it is not a label value.
		s.metrics.requests.WithLabelValues(r.Pattern, method(r), strconv.Itoa(recorder.status)).Inc()
		s.metrics.seconds.WithLabelValues(r.Pattern).Observe(s.deps.Clock.Since(start).Seconds())
	})
}

// method bounds the label's values: a client may send any method.
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

// Unwrap gives http.ResponseController access to Flush and deadlines.
func (w *statusRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
