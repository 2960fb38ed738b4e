package httpd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/httpd/guard"
)

func newServer(t *testing.T, listen string) *Server {
	t.Helper()
	s, err := New(Config{Listen: listen}, guard.DefaultConfig(), Deps{
		Registry: prometheus.NewRegistry(), Clock: clock.Real(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	return s
}

// serve runs s until the test ends and reports how it ended.
func serve(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Listen(t.Context()); err != nil {
		t.Fatalf("listen: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

func get(t *testing.T, s *Server, path, host string) (int, string) {
	t.Helper()
	return ask(t, s, http.MethodGet, path, host, false)
}

func TestListenOnlyOnLoopback(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:0": "", "localhost:0": "", "[::1]:0": "", "127.8.9.1:80": "",
		"0.0.0.0:9415":               "other machines could reach it",
		":9415":                      "other machines could reach it",
		"[::]:9415":                  "other machines could reach it",
		"10.0.0.1:9415":              "other machines could reach it",
		"gpu1.internal:9415":         "other machines could reach it",
		"localhost.example.com:9415": "other machines could reach it",
		"127.0.0.1":                  "want host:port",
		"127.0.0.1:http":             `want a port from 0 to 65535, got "http"`,
		"127.0.0.1:70000":            `got "70000"`,
	} {
		err := Config{Listen: listen}.Validate()
		if want == "" && err != nil {
			t.Errorf("listen %q: got %v", listen, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("listen %q: got %v, want %q in it", listen, err, want)
		}
		if want != "" && !strings.Contains(err.Error(), "unix") {
			t.Errorf("listen %q: %v does not offer unix", listen, err)
		}
	}
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("default: %v", err)
	}
	if _, err := New(Config{Listen: "0.0.0.0:1"}, guard.DefaultConfig(), Deps{}); err == nil {
		t.Error("New took a public address")
	}
}

func TestServesHealthReadinessAndMetrics(t *testing.T) {
	s := newServer(t, "127.0.0.1:0")
	var storeDown atomic.Bool
	s.AddReady("store", func(context.Context) error {
		if storeDown.Load() {
			return errors.New("connection refused")
		}
		return nil
	})
	s.AddReady("broker", func(context.Context) error { return nil })
	serve(t, s)
	type answer struct {
		Status int
		Body   string
	}
	ask := func(path string) answer {
		status, body := get(t, s, path, "")
		return answer{status, body}
	}
	got := []answer{ask("/-/healthy"), ask("/-/ready")}
	storeDown.Store(true)
	got = append(got, ask("/-/ready"), ask("/nothing"))
	want := []answer{
		{200, "healthy\n"},
		{200, "ready\n"},
		{503, "store: connection refused\n"},
		{404, `{"title":"Not Found","status":404,"detail":"no such path"}` + "\n"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	_, metrics := get(t, s, "/metrics", "")
	for _, line := range []string{
		`gputally_http_requests_total{code="503",method="GET",route="GET /-/ready"} 1`,
		`gputally_http_requests_total{code="404",method="GET",route=""} 1`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("/metrics lacks %s:\n%s", line, metrics)
		}
	}
}

func TestRefusesForeignHosts(t *testing.T) {
	s := newServer(t, "127.0.0.1:0")
	serve(t, s)
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:80": 200, "127.0.0.1:1": 200, "[::1]:9415": 200, "[::1]": 200,
		"evil.example": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example:9415": 421, "10.0.0.1": 421,
	} {
		got, body := get(t, s, "/-/healthy", host)
		if problem := strings.Contains(body, `"status":421`); got != want || problem != (want == 421) {
			t.Errorf("host %q: got %d %q, want %d", host, got, body, want)
		}
	}
	if _, text := get(t, s, "/metrics", ""); !strings.Contains(text,
		`gputally_http_requests_refused_total{reason="host"} 4`) {
		t.Errorf("refused requests of foreign hosts, want 4:\n%s", text)
	}
}

func TestUncleanPathsAreNotRedirected(t *testing.T) {
	s := newServer(t, "127.0.0.1:0")
	s.Handle("GET /names/{name}",
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { writeText(w, 200, r.PathValue("name")) }))
	s.Handle("GET /folder/",
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeText(w, 200, "folder") }))
	serve(t, s)
	for path, want := range map[string]int{
		"/names/a%2Fb": 200, "/names/%2E%2E": 200, "/folder/": 200, "/folder/x/": 200,
		"//names/x": 404, "/names//x": 404, "/names/./x": 404, "/folder/../names/x": 404, "/folder//": 404,
	} {
		got, body := get(t, s, path, "")
		if problem := strings.Contains(body, `"status":404`); got != want || problem != (want == 404) {
			t.Errorf("%s: got %d %q, want %d", path, got, body, want)
		}
	}
}

func TestPortInUseNamesTheAddress(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := newServer(t, taken.Addr().String())
	err = s.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) || !strings.Contains(err.Error(),
		"another process uses this address") {
		t.Errorf("port in use: got %v", err)
	}
	if s.Addr() != "" {
		t.Errorf("address without a listener: got %q", s.Addr())
	}
}

func TestStopLetsRunningRequestsFinish(t *testing.T) {
	s := newServer(t, "127.0.0.1:0")
	if s.Mux() != s.mux {
		t.Error("Mux is not the one that is served")
	}
	entered, release := make(chan struct{}), make(chan struct{})
	s.Handle("GET /slow", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-release
		writeText(w, http.StatusOK, "finished\n")
	}))
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done, answered := make(chan error, 1), make(chan string, 1)
	go func() { done <- s.Run(ctx) }()
	go func() {
		_, body, err := converse(t, s, http.MethodGet, "/slow", "", false)
		answered <- fmt.Sprint(body, err)
	}()
	select {
	case <-entered:
	case early := <-answered:
		t.Errorf("answered before the handler was: %s", early)
	}
	cancel()
	close(release)
	if body := <-answered; body != "finished\n<nil>" {
		t.Errorf("request during the stop: got %q", body)
	}
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
}

// Probes have no rate: they must stay cheap however many there are at a time.
func TestProbesShareTheirWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, "127.0.0.1:0")
		release := make(chan struct{})
		var checked, gathered atomic.Int32
		s.AddReady("store", func(context.Context) error { checked.Add(1); <-release; return nil })
		s.deps.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slow"}, func() float64 {
			gathered.Add(1)
			<-release
			return 1
		}))
		handler := s.handler()
		var good atomic.Int32
		for _, path := range []string{"/-/ready", "/-/ready", "/-/ready", "/metrics", "/metrics", "/metrics"} {
			go func() {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
				r.Host = "localhost"
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if w.Code == http.StatusOK {
					good.Add(1)
				}
			}()
		}
		synctest.Wait()
		close(release)
		synctest.Wait()
		if checked.Load() != 1 || gathered.Load() != 1 || good.Load() != 6 {
			t.Errorf("%d checks, %d gatherings, %d good answers; want 1, 1, 6", checked.Load(), gathered.Load(), good.Load())
		}
	})
}

func TestCloseGivesTheAddressUp(t *testing.T) {
	s := newServer(t, "127.0.0.1:0")
	if err := s.Close(); err != nil {
		t.Errorf("close before listen: %v", err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	address := s.Addr()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	again := newServer(t, address)
	if err := again.Listen(t.Context()); err != nil {
		t.Errorf("listen on a freed address: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
