package httpd

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/httpd/guard"
	"github.com/gputally/gputally/internal/unixsock"
)

// server is one on both a loopback address and a socket, or on listen alone.
func bothServer(t *testing.T, listen string, change func(*guard.Config)) *Server {
	t.Helper()
	limits := guard.DefaultConfig()
	if change != nil {
		change(&limits)
	}
	s, err := New(Config{Listen: listen, Socket: filepath.Join(t.TempDir(), "s")}, limits, Deps{
		Registry: prometheus.NewRegistry(), Clock: clock.Real(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Handle("POST /decide",
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusCreated, "decided") }))
	serve(t, s)
	return s
}

// ask sends a request to the loopback address, or over the socket.
func ask(t *testing.T, s *Server, method, path, host string, socket bool) (int, string) {
	t.Helper()
	status, body, err := converse(t, s, method, path, host, socket)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return status, body
}

// converse is ask for goroutines, which can't end the test.
func converse(t *testing.T, s *Server, method, path, host string, socket bool) (int, string, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	address := s.Addr()
	if socket {
		address = "localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return unixsock.Dial(ctx, s.Socket())
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, nil)
	if err != nil {
		return 0, "", err
	}
	if host != "" {
		req.Host = host
	}
	answer, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), err
}

func TestDecisionsAreTakenOverTheSocketAlone(t *testing.T) {
	s := bothServer(t, "127.0.0.1:0", nil)
	for name, c := range map[string]struct {
		method, path string
		socket       bool
		want         int
	}{
		"read on loopback":          {"GET", "/-/healthy", false, 200},
		"read over the socket":      {"GET", "/-/healthy", true, 200},
		"decide on loopback":        {"POST", "/decide", false, 403},
		"decide over the socket":    {"POST", "/decide", true, 201},
		"an unknown path, loopback": {"DELETE", "/x", false, 403},
	} {
		if got, body := ask(t, s, c.method, c.path, "", c.socket); got != c.want {
			t.Errorf("%s: %d %s, want %d", name, got, body, c.want)
		}
	}
	info, err := os.Stat(s.Socket())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: mode %v, %v; want 0600", info.Mode(), err)
	}
}

func TestListenUnixBindsNoPort(t *testing.T) {
	s := bothServer(t, "unix", nil)
	if s.Addr() != "" || s.URL() != "unix:"+s.Socket() {
		t.Errorf("address %q, URL %q; want none and the socket's", s.Addr(), s.URL())
	}
	if at := s.At("/x/"); !strings.HasPrefix(at, "http://localhost/x/ ") || !strings.Contains(at, s.Socket()) {
		t.Errorf("people are sent to %q, want a URL and the socket", at)
	}
	if got, body := ask(t, s, "GET", "/-/healthy", "", true); got != 200 {
		t.Errorf("over the socket: %d %s", got, body)
	}
	if err := (Config{Listen: "unix", Socket: "relative"}).Validate(); err == nil {
		t.Error("a relative socket: no error")
	}
}

func TestL4ConfiguredHostsAreServed(t *testing.T) {
	s := bothServer(t, "127.0.0.1:0", func(c *guard.Config) { c.Hosts = []string{"ledger.internal"} })
	for host, want := range map[string]int{"ledger.internal": 200, "Ledger.Internal:443": 200, "evil.example": 421} {
		if got, body := ask(t, s, "GET", "/-/healthy", host, false); got != want {
			t.Errorf("Host %s: %d %s, want %d", host, got, body, want)
		}
	}
}

// A service that lost one of its listeners must not go on half alive.
func TestALostListenerEndsTheOther(t *testing.T) {
	for _, lost := range []string{"address", "socket"} {
		s := newServer(t, "127.0.0.1:0")
		s.cfg.Socket = filepath.Join(t.TempDir(), "s")
		if err := s.Listen(t.Context()); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- s.Run(t.Context()) }()
		gone, left := s.listener, s.socket
		if lost == "socket" {
			gone, left = left, gone
		}
		_ = gone.Close()
		select {
		case err := <-done:
			if err == nil {
				t.Errorf("the %s is lost: Run returned no error", lost)
			}
		case <-time.After(time.Minute):
			t.Fatalf("the %s is lost: Run goes on", lost)
		}
		if conn, err := net.DialTimeout(left.Addr().Network(), left.Addr().String(), time.Minute); err == nil {
			_ = conn.Close()
			t.Errorf("the %s is lost: the other still listens", lost)
		}
	}
}

// M5: who reads slowly is cut off, and holds nothing that others wait for.
func TestM5SlowReadersHoldNoPlaces(t *testing.T) {
	s := bothServer(t,
		"127.0.0.1:0", func(c *guard.Config) { c.InFlight, c.InFlightPerClient, c.Timeout = 1, 1, 2*time.Second })
	s.Handle("GET /large", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 32<<20))
	}))
	for range 3 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(clock.Real().Now().Add(time.Minute))
		if _, err := io.WriteString(conn, "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		// Its first bytes say that the answer is made; nobody reads the rest.
		if _, err := conn.Read(make([]byte, 64)); err != nil {
			t.Fatal(err)
		}
	}
	if got, body := ask(t, s, "GET", "/decide", "", false); got != http.StatusMethodNotAllowed {
		t.Errorf("beside three slow readers: %d %s", got, body)
	}
	if got, _ := ask(t, s, "GET", "/large", "", false); got != 200 {
		t.Errorf("the large answer beside three slow readers: %d", got)
	}
}
