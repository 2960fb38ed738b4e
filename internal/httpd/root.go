package httpd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gpuledger/gpuledger/internal/clock"
)

const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 2 * time.Minute // a year of usage as CSV
	idleTimeout       = 2 * time.Minute
	drainTimeout      = 10 * time.Second
	readyTimeout      = 5 * time.Second
	maxHeaderBytes    = 64 << 10
)

// Registry is where metrics are registered and what /metrics shows, such as a
// *prometheus.Registry.
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

// Server serves HTTP on one loopback address. Handle and AddReady come before
// Run.
type Server struct {
	cfg      Config
	deps     Deps
	metrics  *metrics
	mux      *http.ServeMux
	ready    []readyCheck
	listener net.Listener
}

// New returns a server with /metrics, /-/healthy and /-/ready. It is inert: it
// binds nothing.
func New(cfg Config, deps Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, deps: deps, metrics: m, mux: http.NewServeMux()}
	s.Handle("GET /metrics", promhttp.HandlerFor(deps.Registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(deps.Log.Handler(), slog.LevelError),
	}))
	s.Handle("GET /-/healthy", http.HandlerFunc(healthy))
	s.Handle("GET /-/ready", http.HandlerFunc(s.serveReady))
	return s, nil
}

// Handle mounts a handler on a pattern of http.ServeMux.
func (s *Server) Handle(pattern string, handler http.Handler) { s.mux.Handle(pattern, handler) }

// Mux is where a room mounts routes of its own, behind the Host check and
// measured like all others.
func (s *Server) Mux() *http.ServeMux { return s.mux }

// Listen binds the address, so that a port in use is known before anything else
// starts. Run calls it where it was not called.
func (s *Server) Listen(ctx context.Context) error {
	if s.listener != nil {
		return nil
	}
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

// Addr is the bound host:port; it is empty before Listen.
func (s *Server) Addr() string {
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// Close gives up an address that Listen bound and Run never served.
func (s *Server) Close() error {
	if s.listener == nil {
		return nil
	}
	if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close %s: %w", s.Addr(), err)
	}
	return nil
}

// Run serves until ctx ends, lets running requests finish, and returns nil.
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
		ErrorLog:          slog.NewLogLogger(s.deps.Log.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(s.listener) }()
	s.deps.Log.Info("listening", "address", s.Addr())
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		s.deps.Log.Warn("requests cut off while stopping", "address", s.Addr(), "error", err)
		return server.Close()
	}
	return nil
}
