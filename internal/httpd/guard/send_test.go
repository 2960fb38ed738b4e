package guard

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gputally/gputally/internal/clock"
)

// Bodies to the port, of which every user can send any number, took all memory that
// decisions over the socket need; and so did answers that nobody read.
func TestM5WhoOnlyReadsTakesNoMemoryOfWhoDecides(t *testing.T) {
	g := newGuard(t, clock.Real())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /large", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", smallAnswer+1))
	})
	ask := func(ctx context.Context, body io.Reader) int {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/large", body)
		r.Host = "localhost"
		w := httptest.NewRecorder()
		g.Handler(mux).ServeHTTP(w, r)
		if (w.Header().Get("Retry-After") == "1") != (w.Code == http.StatusServiceUnavailable) {
			t.Errorf("%d has Retry-After %q", w.Code, w.Header().Get("Retry-After"))
		}
		return w.Code
	}
	reads := WithReadOnly(t.Context())
	if code := ask(reads, strings.NewReader("x")); code != http.StatusBadRequest {
		t.Errorf("a body of who only reads: %d, want 400", code)
	}
	if code := ask(t.Context(), strings.NewReader("x")); code != http.StatusOK {
		t.Errorf("a body of who may decide: %d, want 200", code)
	}
	if !g.unreadReads.TryAcquire(maxUnsentBytes) {
		t.Fatal("the memory for unread answers is not free")
	}
	if read, decide := ask(reads, nil), ask(t.Context(), nil); read != http.StatusServiceUnavailable || decide != http.StatusOK {
		t.Errorf("while answers are unread: %d for who only reads, %d for who may decide, want 503, 200", read, decide)
	}
	if got := testutil.ToFloat64(g.metrics.refused.WithLabelValues(reasonMemory)); got != 1 {
		t.Errorf("%v answers refused for memory, want 1", got)
	}
	g.unreadReads.Release(maxUnsentBytes)
	for range 3 { // all memory comes back
		if read, decide := ask(reads, nil), ask(t.Context(), nil); read != http.StatusOK || decide != http.StatusOK {
			t.Errorf("when they are read: %d, %d, want 200", read, decide)
		}
	}
	if !g.unreadReads.TryAcquire(maxUnsentBytes) || !g.unsent.TryAcquire(maxUnsentBytes) {
		t.Error("answers that were sent keep their memory")
	}
}

// M5: whoever leaves large answers unread keeps nobody from a decision's answer,
// nor from metrics; those who leave metrics unread, not from health.
func TestM5UnreadAnswersHoldUpNeitherDecisionsNorProbes(t *testing.T) {
	g := newGuard(t, clock.Real())
	const small, large = 64 << 10, 64<<10 + 1
	mux := http.NewServeMux()
	for pattern, size := range map[string]int{
		"POST /decide": small, "GET /small": small, "GET /large": large, "GET /metrics": large, "GET /-/ready": small,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", size)) })
	}
	codes := func(want map[string]int) {
		t.Helper()
		for route, want := range want {
			method, path, _ := strings.Cut(route, " ")
			r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
			r.Host = "localhost"
			w := httptest.NewRecorder()
			g.Handler(mux).ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s: %d, want %d", route, w.Code, want)
			}
		}
	}
	if !g.unsent.TryAcquire(maxUnsentBytes) {
		t.Fatal("the memory for unread answers is not free")
	}
	codes(map[string]int{"POST /decide": 200, "GET /small": 200, "GET /large": 503, "GET /metrics": 200, "GET /-/ready": 200})
	if !g.unreadMetrics.TryAcquire(maxMetricsBytes) {
		t.Fatal("the memory for unread metrics is not free")
	}
	codes(map[string]int{"GET /metrics": 503, "GET /-/ready": 200})
	g.unsent.Release(maxUnsentBytes)
	g.unreadMetrics.Release(maxMetricsBytes)
	codes(map[string]int{"GET /large": 200, "GET /metrics": 200})
}
