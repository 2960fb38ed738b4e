package httpd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/singleflight"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/httpd/guard"
	"github.com/gputally/gputally/internal/unixsock"
)

const (
	readHeaderTimeout = 5 * time.Second
	// The guard bounds the time for each body and answer by its size; these bound the time before.
	readTimeout  = 30 * time.Second
	writeTimeout = 2 * time.Minute
	idleTimeout  = 30 * time.Second
	// maxConnections bounds the connections of idle and slow clients, separately for address and socket, so that
	// those on one can't block the other.
	maxConnections = 1024
	drainTimeout   = 10 * time.Second
	readyTimeout   = 5 * time.Second
	maxHeaderBytes = 64 << 10
)

// Registry registers the metrics that /metrics serves, such as a *prometheus.Registry.
type Registry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// Deps are a server's dependencies.
type Deps struct {
	Registry Registry
	Clock    clock.Clock
	Log      *slog.Logger
}

// Server serves HTTP on a loopback address, a Unix socket or both. Call Handle and AddReady before Run.
type Server struct {
	cfg      Config
	deps     Deps
	metrics  *metrics
	guard    *guard.Guard
	mux      *http.ServeMux
	ready    []readyCheck
	listener net.Listener // loopback; nil: none
	socket   net.Listener // nil: none
	probes   singleflight.Group
}

// New returns a server with /metrics, /-/healthy and /-/ready. It binds nothing. limits apply to all its routes
// together.
func New(cfg Config, limits guard.Config, deps Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	front, err := guard.New(limits, guard.Deps{Clock: deps.Clock, Log: deps.Log, Registry: deps.Registry})
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, deps: deps, metrics: newMetrics(deps.Registry), guard: front, mux: http.NewServeMux()}
	s.Handle("GET /metrics", promhttp.HandlerFor(prometheus.GathererFunc(s.gather), promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(deps.Log.Handler(), slog.LevelError),
	}))
	s.Handle("GET /-/healthy", http.HandlerFunc(healthy))
	s.Handle("GET /-/ready", http.HandlerFunc(s.serveReady))
	return s, nil
}

// Handle adds a handler for a pattern of http.ServeMux.
func (s *Server) Handle(pattern string, handler http.Handler) { s.mux.Handle(pattern, handler) }

// Mux is for a component's own routes; they are guarded and measured like all others.
func (s *Server) Mux() *http.ServeMux { return s.mux }

// Listen binds address and socket, so that a port in use is reported before anything else starts. Run calls it if it
// was not called.
func (s *Server) Listen(ctx context.Context) error {
	if s.listener != nil || s.socket != nil {
		return nil
	}
	if s.cfg.Listen != listenUnix {
		if err := s.listenTCP(ctx); err != nil {
			return err
		}
	}
	if s.cfg.Socket == "" {
		return nil
	}
	listener, err := unixsock.Listen(ctx, s.cfg.Socket)
	if err != nil {
		return errors.Join(fmt.Errorf("listen on %s: %w", s.cfg.Socket, err), s.Close())
	}
	s.socket = listener
	return nil
}

func (s *Server) listenTCP(ctx context.Context) error {
	address, err := loopbackAddress(s.cfg.Listen)
	if err != nil {
		return err
	}
	s.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("listen on %s: another process uses this address, choose another one: %w", address, err)
	}
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	return nil
}

// Addr is the bound host:port; empty: none.
func (s *Server) Addr() string {
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// Socket is the path of the bound Unix socket; empty: none.
func (s *Server) Socket() string {
	if s.socket == nil {
		return ""
	}
	return s.cfg.Socket
}

// URL is the server's URL: http:// and its address, or unix: and its socket's path if it isn't bound to loopback.
func (s *Server) URL() string {
	if s.listener == nil {
		return "unix:" + s.Socket()
	}
	return "http://" + s.Addr()
}

// At describes to users how to request a path: its URL and, if the server isn't bound to loopback, the socket.
func (s *Server) At(path string) string {
	if s.listener == nil {
		return "http://localhost" + path + " (curl --unix-socket " + s.Socket() + ")"
	}
	return s.URL() + path
}

// Close closes what Listen bound, if Run was not called.
func (s *Server) Close() error {
	var errs []error
	for _, l := range []net.Listener{s.listener, s.socket} {
		if l == nil {
			continue
		}
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, fmt.Errorf("close %s: %w", l.Addr(), err))
		}
	}
	return errors.Join(errs...)
}

// Run serves until ctx ends, lets running requests finish, and returns nil. If one listener fails, both are closed,
// and Run returns the error.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(ctx); err != nil {
		return err
	}
	server := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if c.LocalAddr().Network() != "unix" {
				return guard.WithReadOnly(ctx)
			}
			return ctx
		},
		ErrorLog: slog.NewLogLogger(s.deps.Log.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 2)
	var serving sync.WaitGroup
	serve := func(l net.Listener) {
		serving.Go(func() { served <- server.Serve(netutil.LimitListener(l, maxConnections)) })
	}
	if s.listener != nil {
		serve(s.listener)
	}
	if s.socket != nil {
		serve(&owners{s.socket, s.deps.Log})
	}
	s.deps.Log.Info("listening", "address", s.Addr(), "socket", s.Socket())
	var failed error
	select {
	case err := <-served:
		failed = fmt.Errorf("serve HTTP: %w", err) // the error names the listener
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		s.deps.Log.Warn("requests aborted while stopping", "address", s.Addr(), "error", err)
		failed = errors.Join(failed, server.Close())
	}
	serving.Wait() // a Serve that starts after Shutdown closes its listener itself
	return failed
}
