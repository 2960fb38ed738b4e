package guard

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gputally/gputally/internal/clock"
)

func newGuard(t *testing.T, c clock.Clock) *Guard {
	t.Helper()
	g, err := New(DefaultConfig(), Deps{Clock: c, Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// connection is a recorder with deadlines, whose reader takes a second for each
// write, and fails at one if it is set.
type connection struct {
	*httptest.ResponseRecorder
	clock        *clock.Fake
	reads, write []time.Time
	failsAt      int
}

func (c *connection) SetReadDeadline(at time.Time) error { c.reads = append(c.reads, at); return nil }

func (c *connection) SetWriteDeadline(at time.Time) error { c.write = append(c.write, at); return nil }

func (c *connection) Write(p []byte) (int, error) {
	c.clock.Advance(time.Second)
	if len(c.write) == c.failsAt {
		return 0, io.ErrClosedPipe
	}
	return c.ResponseRecorder.Write(p)
}

// A second more than the grace for each 256 KiB; what a stream takes to be made is
// not its reader's time.
func TestWhatMayTakeHowLong(t *testing.T) {
	const second = 256 << 10
	fake := clock.NewFake(clock.Real().Now())
	start := fake.Now()
	g := newGuard(t, fake)
	mux := http.NewServeMux()
	var flushed error
	mux.HandleFunc("/stream", func(w http.ResponseWriter, _ *http.Request) {
		flush := http.NewResponseController(w).Flush
		_, _ = w.Write(make([]byte, second))
		w.WriteHeader(http.StatusTeapot) // too late: the first write was 200
		flushed = flush()
		fake.Advance(time.Minute)
		_, _ = w.Write(make([]byte, 2*second))
		_, _ = w.Write(make([]byte, second))
		flushed = errors.Join(flushed, flush())
	})
	mux.HandleFunc("/kept", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 3*second))
		w.WriteHeader(http.StatusTeapot)
	})
	ask := func(path string, body io.Reader, failsAt int) *connection {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, body)
		r.Host = "localhost"
		w := &connection{ResponseRecorder: httptest.NewRecorder(), clock: fake, failsAt: failsAt}
		g.Handler(mux).ServeHTTP(w, r)
		return w
	}
	at := func(from time.Time, seconds ...int) (times []time.Time) {
		for _, s := range seconds {
			times = append(times, from.Add(time.Duration(s)*time.Second))
		}
		return times
	}
	w := ask("/stream", nil, -1)
	// Written at 0, 61 and 62 seconds, when 1, 3 and 4 seconds' worth were sent, and 0,
	// 1 and 2 seconds waited for.
	if diff := cmp.Diff(at(start, 10+1, 61+10+3-1, 62+10+4-2), w.write); diff != "" || w.reads != nil || w.Code != http.StatusOK || flushed != nil {
		t.Errorf("a stream: %d, flush %v, read deadlines %v, write deadlines (-want +got):\n%s", w.Code, flushed, w.reads, diff)
	}
	if ask("/stream", nil, 1); !errors.Is(flushed, io.ErrClosedPipe) {
		t.Errorf("flush to a client that has gone: %v, want what the connection says", flushed)
	}
	start = fake.Now()
	w = ask("/kept", strings.NewReader(strings.Repeat("x", 2*second)), -1)
	if diff := cmp.Diff(at(start, 10+3), w.write); diff != "" || w.Code != http.StatusOK {
		t.Errorf("an answer that is kept: %d, write deadlines (-want +got):\n%s", w.Code, diff)
	}
	if diff := cmp.Diff([]time.Time{start.Add(12 * time.Second), {}}, w.reads); diff != "" {
		t.Errorf("a body: read deadlines (-want +got):\n%s", diff)
	}
	start = fake.Now()
	w = ask("/kept", io.MultiReader(strings.NewReader("x")), -1) // of unknown length: as for the longest
	if diff := cmp.Diff([]time.Time{start.Add(22 * time.Second), {}}, w.reads); diff != "" {
		t.Errorf("a body of unknown length: read deadlines (-want +got):\n%s", diff)
	}
}

func TestBodiesGiveTheirMemoryBack(t *testing.T) {
	g := newGuard(t, clock.Real())
	mux := http.NewServeMux()
	var got string
	mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = string(body)
		if g.bodies.TryAcquire(maxBodiesBytes - int64(len(body)) + 1) {
			t.Errorf("a body of %d bytes takes less memory than that while it is used", len(body))
		}
	})
	full := strings.Repeat("x", MaxBodyBytes)
	for name, c := range map[string]struct {
		body   io.Reader
		length int64
		want   int
	}{
		"the longest":                 {strings.NewReader(full), MaxBodyBytes, 200},
		"too long":                    {strings.NewReader(full + "x"), MaxBodyBytes + 1, 413},
		"too long, in chunks":         {io.MultiReader(strings.NewReader(full + "x")), -1, 413},
		"ended early":                 {io.MultiReader(strings.NewReader("xx"), failing{io.ErrUnexpectedEOF}), 5, 400},
		"stopped":                     {io.MultiReader(strings.NewReader("xx"), failing{os.ErrDeadlineExceeded}), 5, 408},
		"stopped before it had begun": {failing{os.ErrDeadlineExceeded}, 5, 408},
	} {
		got = ""
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", c.body)
		r.Host, r.ContentLength = "localhost", c.length
		w := httptest.NewRecorder()
		g.Handler(mux).ServeHTTP(w, r)
		if w.Code != c.want || (w.Header().Get("Connection") == "close") == (c.want == 200) || (c.want == 200) != (got == full) {
			t.Errorf("%s: %d, Connection %q, the handler got %d bytes; want %d", name, w.Code, w.Header().Get("Connection"), len(got), c.want)
		}
		if !g.bodies.TryAcquire(maxBodiesBytes) {
			t.Fatalf("%s: its memory is not free afterwards", name)
		}
		g.bodies.Release(maxBodiesBytes)
	}
	if !g.bodies.TryAcquire(maxBodiesBytes - 1) {
		t.Fatal("the memory is not free")
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("xx"))
	r.Host = "localhost"
	w := httptest.NewRecorder()
	g.Handler(mux).ServeHTTP(w, r)
	if refused := testutil.ToFloat64(g.metrics.refused.WithLabelValues(reasonMemory)); w.Code != 503 || w.Header().Get("Retry-After") != "1" || refused != 1 {
		t.Errorf("a body with a byte too few free: %d, Retry-After %q, %v refused; want 503, 1, 1", w.Code, w.Header().Get("Retry-After"), refused)
	}
	if g.bodies.TryAcquire(2) || !g.bodies.TryAcquire(1) {
		t.Error("a body that found no memory has given back what was not its own")
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestTheLimiterKeepsThoseWhoAskMost(t *testing.T) {
	now := clock.Real().Now()
	l := newLimiter(1, 3)
	client := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }
	take := func(i int, after time.Duration) {
		t.Helper()
		if _, ok := l.take(client(i), now.Add(after)); !ok {
			t.Fatalf("client %d has no token", i)
		}
	}
	const idle = maxClients / 2
	for i := range idle { // full again after a second
		take(i, 0)
	}
	for i := idle; i < maxClients; i++ {
		take(i, 0)
		take(i, 0)
	}
	take(0, time.Second)
	if len(l.full) != maxClients {
		t.Fatalf("%d clients are known when one comes again, want all %d", len(l.full), maxClients)
	}
	take(maxClients, time.Second)
	// The one that came again, the new one, and the busy.
	if want := maxClients/2 + 2; len(l.full) != want {
		t.Errorf("%d clients are known, want the %d that have not all their tokens", len(l.full), want)
	}
	for i := maxClients + 1; len(l.full) < maxClients; i++ {
		take(i, time.Second)
	}
	take(2*maxClients, time.Second)
	if want := maxClients * 3 / 4; len(l.full) != want {
		t.Errorf("%d clients are known after one too many of which none has all tokens, want %d", len(l.full), want)
	}
}

func TestPlacesAreGivenBack(t *testing.T) {
	p := newPlaces(2, 1)
	one, other, third := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late := &laterGone{Context: t.Context()}
	leave, err := p.take(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.take(gone, one); !errors.Is(err, context.Canceled) {
		t.Errorf("a client's second request: %v, want that its context ended", err)
	}
	leaveOther, err := p.take(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.take(late, third); !errors.Is(err, context.Canceled) || late.waited != 2 {
		t.Errorf("a request when every place is taken: %v, want that its context ended", err)
	}
	next := make(chan error)
	go func() { // the client's next request gets the place that this one leaves
		leaveNext, err := p.take(t.Context(), one)
		if err == nil {
			leaveNext()
		}
		next <- err
	}()
	leave()
	leave()
	if err := <-next; err != nil {
		t.Error(err)
	}
	waiting := p.enter(third)
	if !waiting.places.TryAcquire(1) {
		t.Error("a request that got no place keeps its client's")
	}
	waiting.places.Release(1)
	p.leave(third)
	leaveOther()
	if len(p.clients) != 0 || !p.total.TryAcquire(2) || p.total.TryAcquire(1) {
		t.Errorf("%d clients are known when no request is left, want none, and 2 places", len(p.clients))
	}
}

// laterGone has ended when somebody waits for it a second time.
type laterGone struct {
	context.Context
	waited int
}

func (l *laterGone) Done() <-chan struct{} {
	if l.waited++; l.waited == 1 {
		return nil
	}
	done := make(chan struct{})
	close(done)
	return done
}

func (*laterGone) Err() error { return context.Canceled }

func TestHeadersOfEveryAnswer(t *testing.T) {
	g := newGuard(t, clock.Real())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /answered", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /folder/", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /broken", func(http.ResponseWriter, *http.Request) { panic(errors.New("broken")) })
	for path, c := range map[string]struct {
		method string
		ctx    context.Context
		body   io.Reader
		want   int
		close  string
	}{
		"/answered":      {"GET", t.Context(), nil, 200, ""},
		"/unknown":       {"GET", t.Context(), nil, 404, ""},
		"/folder/":       {"GET", t.Context(), nil, 200, ""},
		"/":              {"GET", t.Context(), nil, 200, ""},
		"//":             {"GET", t.Context(), nil, 404, ""},
		"/broken":        {"GET", t.Context(), nil, 500, ""},
		"/answered?get":  {"GET", WithReadOnly(t.Context()), nil, 200, ""},
		"/answered?head": {"HEAD", WithReadOnly(t.Context()), nil, 200, ""},
		"/answered?post": {"POST", WithReadOnly(t.Context()), nil, 403, ""},
		"/answered?body": {"GET", WithReadOnly(t.Context()), strings.NewReader("x"), 400, "close"},
	} {
		r := httptest.NewRequestWithContext(c.ctx, c.method, path, c.body)
		r.Host = "localhost"
		w := httptest.NewRecorder()
		g.Handler(mux).ServeHTTP(w, r)
		want := map[string]string{
			"X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-cache",
			"Cross-Origin-Resource-Policy": "same-origin", "Connection": c.close,
		}
		got := map[string]string{}
		for name := range want {
			got[name] = w.Header().Get(name)
		}
		if diff := cmp.Diff(want, got); diff != "" || w.Code != c.want {
			t.Errorf("%s: %d, want %d; headers (-want +got):\n%s", path, w.Code, c.want, diff)
		}
	}
	if got := testutil.ToFloat64(g.metrics.refused.WithLabelValues(reasonRead)); got != 1 {
		t.Errorf("%v refused because the address only reads, want 1", got)
	}
	if got := testutil.ToFloat64(g.metrics.panics); got != 1 {
		t.Errorf("%v panics, want 1", got)
	}
}

// Only what a GET or HEAD brought has an ETag; a problem has none, nor 304 a type.
func TestETagsOfWhatMayBeKept(t *testing.T) {
	g := newGuard(t, clock.Real())
	mux := http.NewServeMux()
	for status, path := range map[int]string{200: "/good", 404: "/missing"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/csv")
			w.WriteHeader(status)
		})
	}
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"its own"`)
		panic("broken")
	})
	for _, c := range []struct {
		method, path, condition string
		want                    int
		tag                     bool
		kind                    string
	}{
		{"GET", "/good", "", 200, true, "text/csv"},
		{"HEAD", "/good", "", 200, true, "text/csv"},
		{"POST", "/good", "", 200, false, "text/csv"},
		{"POST", "/good", "*", 200, false, "text/csv"},
		{"GET", "/missing", "*", 404, false, "text/csv"},
		{"GET", "/good", "*", 304, true, ""},
		{"GET", "/broken", "", 500, false, ProblemType},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil)
		r.Host = "localhost"
		r.Header.Set("If-None-Match", c.condition)
		w := httptest.NewRecorder()
		g.Handler(mux).ServeHTTP(w, r)
		if w.Code != c.want || (w.Header().Get("ETag") != "") != c.tag || w.Header().Get("Content-Type") != c.kind {
			t.Errorf("%s %s: %d, %v", c.method, c.path, w.Code, w.Header())
		}
	}
}

func TestConfigLimits(t *testing.T) {
	if got, want := DefaultConfig(), (Config{RatePerSecond: 50, Burst: 200, InFlight: 16, InFlightPerClient: 8, Timeout: time.Minute}); !cmp.Equal(want, got) {
		t.Errorf("default %+v, want %+v as docs/reference/configuration.md has it", got, want)
	}
	for name, set := range map[string]func(*Config, int) (least, most int){
		"rate":       func(c *Config, n int) (int, int) { c.RatePerSecond = n; return 1, 1_000_000 },
		"burst":      func(c *Config, n int) (int, int) { c.Burst = n; return 1, 1_000_000 },
		"in flight":  func(c *Config, n int) (int, int) { c.InFlight, c.InFlightPerClient = n, min(n, 1); return 1, 1 << 40 },
		"per client": func(c *Config, n int) (int, int) { c.InFlightPerClient = n; return 1, c.InFlight },
		"timeout": func(c *Config, n int) (int, int) {
			c.Timeout = time.Duration(n)
			return int(time.Second), int(time.Hour)
		},
	} {
		c := DefaultConfig()
		least, most := set(&c, 0)
		for n, good := range map[int]bool{least - 1: false, least: true, most: true, most + 1: most == 1<<40} {
			if set(&c, n); (c.Validate() == nil) != good {
				t.Errorf("%s %s: %v, want it allowed: %v", name, strconv.Itoa(n), c.Validate(), good)
			}
		}
	}
}
