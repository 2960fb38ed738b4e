package guard_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/httpd/guard"
)

type fixture struct {
	http.Handler
	clock    *clock.Fake
	registry *prometheus.Registry
	log      *bytes.Buffer
	release  chan struct{}
	entered  chan struct{}
}

// bodySHA256 is of "body".
const bodySHA256 = `"230d8358dc8e8890b4c58deeb62912ee2f20357ae92a5cc861b98e68fe31acb5"`

func newFixture(t *testing.T, change func(*guard.Config)) *fixture {
	t.Helper()
	f := &fixture{
		clock: clock.NewFake(clock.Real().Now()), registry: prometheus.NewRegistry(), log: &bytes.Buffer{},
		release: make(chan struct{}), entered: make(chan struct{}, 10),
	}
	cfg := guard.DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	g, err := guard.New(cfg, guard.Deps{Clock: f.clock, Log: slog.New(slog.NewTextHandler(f.log, nil)), Registry: f.registry})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /body", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "body") })
	mux.HandleFunc("POST /body", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	mux.HandleFunc("GET /names/{name}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.PathValue("name")) })
	mux.HandleFunc("GET /panic", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Disposition", "attachment")
		fmt.Fprint(w, "half")
		panic("broken")
	})
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		_ = http.NewResponseController(w).Flush()
		fmt.Fprint(w, "stream")
		if r.URL.RawQuery != "" {
			panic(http.ErrAbortHandler)
		}
	})
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ready") })
	mux.HandleFunc("GET /slow", func(http.ResponseWriter, *http.Request) {
		f.entered <- struct{}{}
		<-f.release
	})
	f.Handler = g.Handler(mux)
	return f
}

func (f *fixture) ask(t *testing.T, method, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.Host, r.RemoteAddr = "127.0.0.1:9415", "192.0.2.1:1234"
	for i := 0; i < len(header); i += 2 {
		switch header[i] {
		case "Host":
			r.Host = header[i+1]
		case "From":
			r.RemoteAddr = header[i+1]
		default:
			r.Header.Set(header[i], header[i+1])
		}
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

// wantProblem checks that an answer is a whole problem of a status.
func wantProblem(t *testing.T, w *httptest.ResponseRecorder, status int, detail string) {
	t.Helper()
	var problem struct {
		Status int
		Title  string
		Detail string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil {
		t.Fatalf("answer %d %q: %v", w.Code, w.Body, err)
	}
	if w.Code != status || problem.Status != status || problem.Title == "" || !strings.Contains(problem.Detail, detail) ||
		w.Header().Get("Content-Type") != guard.ProblemType {
		t.Errorf("answer %d %s %s, want the problem %d with %q", w.Code, w.Header().Get("Content-Type"), w.Body, status, detail)
	}
}

func TestRefusals(t *testing.T) {
	cases := map[string]struct {
		method, path string
		header       []string
		status       int
		detail       string
	}{
		"foreign host":          {"GET", "/body", []string{"Host", "evil.example"}, 421, `host "evil.example"`},
		"rebound host":          {"GET", "/body", []string{"Host", "localhost.evil.example:9415"}, 421, "not a name of this service"},
		"no host":               {"GET", "/body", []string{"Host", ""}, 421, "not a name of this service"},
		"page of another site":  {"POST", "/body", []string{"Sec-Fetch-Site", "cross-site"}, 403, "cross-site"},
		"page of the same site": {"POST", "/body", []string{"Sec-Fetch-Site", "same-site"}, 403, "cross-site"},
		"old browser":           {"POST", "/body", []string{"Origin", "https://evil.example"}, 403, "cross-site"},
		"unknown path":          {"GET", "/nothing", nil, 404, "no such path"},
		"two slashes":           {"GET", "/names//x", nil, 404, "no such path"},
		"upwards":               {"GET", "/names/../body", nil, 404, "no such path"},
		"other method":          {"DELETE", "/body", nil, 405, "only GET, HEAD, POST"},
		"panic":                 {"GET", "/panic", nil, 500, "log says why"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			w := f.ask(t, c.method, c.path, c.header...)
			wantProblem(t, w, c.status, c.detail)
			if c.status == http.StatusMethodNotAllowed && w.Header().Get("Allow") != "GET, HEAD, POST" {
				t.Errorf("Allow = %q", w.Header().Get("Allow"))
			}
			if w.Header().Get("Content-Disposition") != "" {
				t.Error("a problem is not a file")
			}
		})
	}
}

func TestLetsThrough(t *testing.T) {
	f := newFixture(t, func(c *guard.Config) { c.Hosts = []string{"ledger.internal"} })
	for name, c := range map[string]struct {
		method, path string
		header       []string
		status       int
		body         string
	}{
		"GET":             {"GET", "/body", nil, 200, "body"},
		"HEAD":            {"HEAD", "/body", nil, 200, "body"}, // the server leaves the body out
		"configured host": {"GET", "/body", []string{"Host", "Ledger.internal:80"}, 200, "body"},
		"IPv6":            {"GET", "/body", []string{"Host", "[::1]:9415"}, 200, "body"},
		"reading across":  {"GET", "/body", []string{"Sec-Fetch-Site", "cross-site"}, 200, "body"},
		"own page":        {"POST", "/body", []string{"Sec-Fetch-Site", "same-origin"}, 201, ""},
		"no browser":      {"POST", "/body", nil, 201, ""},
		"escaped slash":   {"GET", "/names/ml%2Ftrain", nil, 200, "ml/train"},
		"escaped dots":    {"GET", "/names/%2E%2E", nil, 200, ".."},
	} {
		if w := f.ask(t, c.method, c.path, c.header...); w.Code != c.status || w.Body.String() != c.body {
			t.Errorf("%s: %d %q, want %d %q", name, w.Code, w.Body, c.status, c.body)
		}
	}
}

func TestETag(t *testing.T) {
	f := newFixture(t, nil)
	w := f.ask(t, "GET", "/body")
	if got := w.Header().Get("ETag"); got != bodySHA256 {
		t.Fatalf("ETag = %s, want %s", got, bodySHA256)
	}
	for condition, want := range map[string]int{
		bodySHA256: 304, "W/" + bodySHA256: 304, `"other", ` + bodySHA256: 304, "*": 304,
		`"other"`: 200, "": 200, strings.Trim(bodySHA256, `"`): 200,
	} {
		w := f.ask(t, "GET", "/body", "If-None-Match", condition)
		if w.Code != want || (want == 304) != (w.Body.Len() == 0) || w.Header().Get("ETag") != bodySHA256 {
			t.Errorf("If-None-Match %s: %d %q, want %d", condition, w.Code, w.Body, want)
		}
	}
	if w := f.ask(t, "GET", "/stream"); w.Header().Get("ETag") != "" || w.Body.String() != "stream" {
		t.Errorf("a stream: ETag %q, body %q", w.Header().Get("ETag"), w.Body)
	}
	if got := testutil.ToFloat64(mustGather(t, f, "gputally_http_not_modified_total")); got != 4 {
		t.Errorf("not modified = %v, want 4", got)
	}
}

// mustGather is a metric of the fixture, summed over its labels.
func mustGather(t *testing.T, f *fixture, name string) prometheus.Collector {
	t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := prometheus.NewGauge(prometheus.GaugeOpts{Name: "sum"})
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				sum.Add(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			}
			return sum
		}
	}
	t.Fatalf("no metric %s", name)
	return nil
}

func TestRateLimitIsATokenBucketPerClient(t *testing.T) {
	f := newFixture(t, func(c *guard.Config) { c.RatePerSecond, c.Burst = 4, 3 })
	ask := func(from string) *httptest.ResponseRecorder { return f.ask(t, "GET", "/body", "From", from) }
	codes := func(from string, n int) (codes []int) {
		for range n {
			codes = append(codes, ask(from).Code)
		}
		return codes
	}
	const one, other = "192.0.2.1:1", "192.0.2.2:1"
	if diff := cmp.Diff([]int{200, 200, 200, 429}, codes(one, 4)); diff != "" {
		t.Errorf("a burst (-want +got):\n%s", diff)
	}
	w := ask("192.0.2.1:999")
	wantProblem(t, w, 429, "more than 4 requests a second")
	if got := w.Header().Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After = %q, want 1", got)
	}
	if diff := cmp.Diff([]int{200}, codes(other, 1)); diff != "" {
		t.Errorf("another client (-want +got):\n%s", diff)
	}
	f.clock.Advance(250 * time.Millisecond)
	if diff := cmp.Diff([]int{200, 429}, codes(one, 2)); diff != "" {
		t.Errorf("after one interval (-want +got):\n%s", diff)
	}
	f.clock.Advance(time.Hour)
	if diff := cmp.Diff([]int{200, 200, 200, 429}, codes(one, 4)); diff != "" {
		t.Errorf("after an hour (-want +got):\n%s", diff)
	}
	f.clock.Advance(-24 * time.Hour)
	codes(one, 1)
	f.clock.Advance(time.Second)
	if diff := cmp.Diff([]int{200}, codes(one, 1)); diff != "" {
		t.Errorf("a second after the clock was set back (-want +got):\n%s", diff)
	}
	// One IPv6 site is one client, whatever its addresses.
	if diff := cmp.Diff([]int{200, 200, 200, 429}, []int{
		ask("[2001:db8::1]:1").Code, ask("[2001:db8::2]:1").Code, ask("[2001:db8::3]:1").Code, ask("[2001:db8::4]:1").Code,
	}); diff != "" {
		t.Errorf("an IPv6 site (-want +got):\n%s", diff)
	}
}

// M5: every process of the machine can choose among 2^24 loopback addresses.
func TestM5LoopbackAddressesAreOneClient(t *testing.T) {
	f := newFixture(t, func(c *guard.Config) { c.Burst = 1 })
	for _, c := range []struct {
		path, from string
		want       int
	}{
		{"/body", "127.0.0.1:1", 200},
		{"/body", "127.0.0.2:1", 429},
		{"/body", "127.9.9.9:1", 429},
		{"/body", "[::1]:1", 429},
		{"/body", "[::ffff:127.0.0.3]:1", 429},
		{"/body", "@", 200}, // the socket's users are another client
		{"/body", "@", 429},
		{"/-/ready", "127.0.0.1:1", 200}, // probes have no rate
	} {
		if w := f.ask(t, "GET", c.path, "From", c.from); w.Code != c.want {
			t.Errorf("%s from %s = %d, want %d", c.path, c.from, w.Code, c.want)
		}
	}
}

func TestTheLimiterForgetsClients(t *testing.T) {
	f := newFixture(t, func(c *guard.Config) { c.RatePerSecond, c.Burst = 1, 1 })
	for i := range 10_000 {
		if w := f.ask(t, "GET", "/body", "From", fmt.Sprintf("10.0.%d.%d:1", i/250, i%250)); w.Code != 200 {
			t.Fatalf("client %d = %d", i, w.Code)
		}
	}
	if w := f.ask(t, "GET", "/body", "From", "10.0.39.249:1"); w.Code != 429 {
		t.Errorf("the last client at once again = %d, want 429", w.Code)
	}
}

func TestMoreThanThePlacesWaitForTheirDeadline(t *testing.T) {
	f := newFixture(t, func(c *guard.Config) { c.InFlight, c.InFlightPerClient, c.Timeout = 1, 1, time.Second })
	done := make(chan *httptest.ResponseRecorder)
	go func() { done <- f.ask(t, "GET", "/slow") }()
	<-f.entered
	w := f.ask(t, "GET", "/body")
	wantProblem(t, w, 503, "too many requests")
	if w.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	close(f.release)
	if first := <-done; first.Code != 200 {
		t.Errorf("the first = %d", first.Code)
	}
	if w := f.ask(t, "GET", "/body"); w.Code != 200 {
		t.Errorf("after the first = %d, want 200", w.Code)
	}
	if n := f.refusals(t, "busy"); n != 1 {
		t.Errorf("%v requests were refused as busy, want 1", n)
	}
}

// refusals is the counter of one reason.
func (f *fixture) refusals(t *testing.T, reason string) (n float64) {
	t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.Metric {
			if family.GetName() == "gputally_http_requests_refused_total" && m.Label[0].GetValue() == reason {
				n += m.Counter.GetValue()
			}
		}
	}
	return n
}

func TestAStreamKeepsItsStatus(t *testing.T) {
	f := newFixture(t, nil)
	if w := f.ask(t, "GET", "/stream"); w.Code != 202 || w.Body.String() != "stream" {
		t.Errorf("stream = %d %q, want 202", w.Code, w.Body)
	}
}

// One client can't take every place.
func TestM5OtherClientsFindAPlace(t *testing.T) {
	f := newFixture(t, func(c *guard.Config) { c.InFlight, c.InFlightPerClient, c.Timeout = 2, 1, time.Second })
	done := make(chan *httptest.ResponseRecorder)
	go func() { done <- f.ask(t, "GET", "/slow") }()
	<-f.entered
	wantProblem(t, f.ask(t, "GET", "/body"), 503, "too many requests")
	if w := f.ask(t, "GET", "/body", "From", "192.0.2.2:1"); w.Code != 200 {
		t.Errorf("another client = %d, want 200", w.Code)
	}
	close(f.release)
	<-done
}

func TestProbesWaitForNoPlace(t *testing.T) {
	f := newFixture(t, func(c *guard.Config) { c.InFlight, c.InFlightPerClient, c.Timeout = 1, 1, time.Second })
	done := make(chan *httptest.ResponseRecorder)
	go func() { done <- f.ask(t, "GET", "/slow") }()
	<-f.entered
	if w := f.ask(t, "GET", "/-/ready"); w.Code != 200 {
		t.Errorf("a probe while every place is taken = %d, want 200", w.Code)
	}
	close(f.release)
	<-done
}

// M5: what has come of bodies that don't end is bounded for all together.
func TestM5BodiesInMemoryAreBounded(t *testing.T) {
	f := newFixture(t, func(c *guard.Config) { c.Burst = 1000 })
	const part = guard.MaxBodyBytes - 1
	var wg sync.WaitGroup
	var refused atomic.Int32
	end := make(chan struct{})
	for range 40 { // 120 MB
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/body",
			io.MultiReader(io.LimitReader(zeros{}, part), waits{end}))
		r.Host, r.RemoteAddr = "127.0.0.1:9415", "192.0.2.1:1234"
		r.ContentLength = -1
		wg.Go(func() {
			w := httptest.NewRecorder()
			f.ServeHTTP(w, r)
			if w.Code == http.StatusServiceUnavailable && refused.Add(1) == 19 {
				close(end) // of 40 at most 21 fit 64 MiB
			}
		})
	}
	wg.Wait()
	if w := f.ask(t, "POST", "/body"); w.Code != http.StatusCreated {
		t.Errorf("after they ended = %d, want 201", w.Code)
	}
	if got := testutil.ToFloat64(mustGather(t, f, "gputally_http_requests_refused_total")); got < 19 {
		t.Errorf("refused = %v, want 19 or more", got)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// waits ends when its channel is closed.
type waits struct{ end chan struct{} }

func (w waits) Read([]byte) (int, error) {
	<-w.end
	return 0, io.EOF
}

func TestAStreamThatFailsIsCutOff(t *testing.T) {
	f := newFixture(t, nil)
	server := httptest.NewServer(f)
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/stream?fail", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := bytes.NewBuffer(nil).ReadFrom(answer.Body); err == nil {
		t.Error("the client can't tell a part from the whole")
	}
	if f.log.Len() > 0 {
		t.Errorf("log = %s, want nothing: the handler said what there is to say", f.log)
	}
}

func TestMetricsAndPattern(t *testing.T) {
	f := newFixture(t, func(c *guard.Config) { c.Burst = 3 })
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/names/x", nil)
	r.Host = "localhost"
	f.ServeHTTP(httptest.NewRecorder(), r)
	if r.Pattern != "GET /names/{name}" {
		t.Errorf("pattern for who measures outside = %q", r.Pattern)
	}
	f.ask(t, "GET", "/panic")
	f.ask(t, "GET", "/body", "Host", "evil.example")
	f.ask(t, "POST", "/body", "Sec-Fetch-Site", "cross-site")
	for range 3 {
		f.ask(t, "GET", "/body")
	}
	want := `
# HELP gputally_http_requests_refused_total Requests refused before any handler, by reason.
# TYPE gputally_http_requests_refused_total counter
gputally_http_requests_refused_total{reason="busy"} 0
gputally_http_requests_refused_total{reason="cross_origin"} 1
gputally_http_requests_refused_total{reason="host"} 1
gputally_http_requests_refused_total{reason="memory"} 0
gputally_http_requests_refused_total{reason="rate"} 2
gputally_http_requests_refused_total{reason="read_only"} 0
# HELP gputally_http_panics_total Handlers that panicked.
# TYPE gputally_http_panics_total counter
gputally_http_panics_total 1
`
	if err := testutil.GatherAndCompare(f.registry, strings.NewReader(want), "gputally_http_requests_refused_total", "gputally_http_panics_total"); err != nil {
		t.Error(err)
	}
	if !strings.Contains(f.log.String(), "reason=broken") || !strings.Contains(f.log.String(), `route="GET /panic"`) {
		t.Errorf("log = %s, want the panic's reason and route", f.log)
	}
}

func TestConfigNamesWhatCantWork(t *testing.T) {
	for want, change := range map[string]func(*guard.Config){
		"rate_per_second 0":       func(c *guard.Config) { c.RatePerSecond = 0 },
		"burst -1":                func(c *guard.Config) { c.Burst = -1 },
		"in_flight 0":             func(c *guard.Config) { c.InFlight = 0 },
		"in_flight_per_client 17": func(c *guard.Config) { c.InFlightPerClient = 17 },
		"timeout 1ms":             func(c *guard.Config) { c.Timeout = time.Millisecond },
	} {
		c := guard.DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want it to contain %q", err, want)
		}
	}
	if err := guard.DefaultConfig().Validate(); err != nil {
		t.Errorf("default: %v", err)
	}
	all := guard.Deps{Clock: clock.Real(), Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()}
	for _, lacks := range []func(*guard.Deps){
		func(d *guard.Deps) { d.Clock = nil }, func(d *guard.Deps) { d.Log = nil }, func(d *guard.Deps) { d.Registry = nil },
	} {
		deps := all
		lacks(&deps)
		if _, err := guard.New(guard.DefaultConfig(), deps); err == nil {
			t.Errorf("a guard was made with no more than %+v", deps)
		}
	}
	if _, err := guard.New(guard.Config{}, all); err == nil {
		t.Error("a guard was made of the zero configuration")
	}
}

// asked is a real server in front of which stands the guard.
func asked(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	g, err := guard.New(guard.DefaultConfig(), guard.Deps{
		Clock: clock.Real(), Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /slow", handler)
	server := httptest.NewUnstartedServer(g.Handler(mux))
	server.Config.ReadTimeout = time.Second
	server.Start()
	t.Cleanup(server.Close)
	return server
}

func TestBodiesThatDontComeAreProblems(t *testing.T) {
	server := asked(t, func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })
	for name, c := range map[string]struct {
		length string
		send   string
		end    bool
		want   int
	}{
		"slow":            {"Content-Length: 5", "half", false, 408},
		"short":           {"Content-Length: 5", "half", true, 400},
		"long":            {fmt.Sprintf("Content-Length: %d", guard.MaxBodyBytes+1), "", false, 413},
		"long, in chunks": {"Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n", guard.MaxBodyBytes+1, strings.Repeat("x", guard.MaxBodyBytes+1)), false, 413},
	} {
		if name == "slow" && testing.Short() {
			continue // it waits for ten seconds
		}
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(clock.Real().Now().Add(time.Minute))
		go func() {
			fmt.Fprintf(conn, "POST /slow HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n%s", c.length, c.send)
			if c.end {
				_ = conn.(*net.TCPConn).CloseWrite()
			}
		}()
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		defer answer.Body.Close()
		if answer.StatusCode != c.want || answer.Header.Get("Content-Type") != guard.ProblemType {
			t.Errorf("%s: %d %v, want the problem %d", name, answer.StatusCode, answer.Header, c.want)
		}
	}
}
