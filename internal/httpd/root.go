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
	// The guard bounds each body and answer by its size; these are for what
	// comes before it.
	readTimeout  = 30 * time.Second
	writeTimeout = 2 * time.Minute
	idleTimeout  = 30 * time.Second
	// maxConnections bounds what idle and slow clients can hold, of address and of
	// socket: those of one keep nobody from the other.
	maxConnections = 1024
	drainTimeout   = 10 * time.Second
	readyTimeout   = 5 * time.Second
	maxHeaderBytes = 64 << 10
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

// Server serves HTTP on a loopback address, on a Unix socket or on both. Handle
// and AddReady come before Run.
type Server struct {
	cfg      Config
	deps     Deps
	metrics  *metrics
	guard    *guard.Guard
	mux      *http.ServeMux
	ready    []readyCheck
	listener net.Listener // on loopback; nil: none
	socket   net.Listener // nil: none
	probes   singleflight.Group
}

// New returns a server with /metrics, /-/healthy and /-/ready. It is inert: it
// binds nothing. limits are of all its routes together.
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

// Handle mounts a handler on a pattern of http.ServeMux.
func (s *Server) Handle(pattern string, handler http.Handler) { s.mux.Handle(pattern, handler) }

// Mux is where a component mounts routes of its own, behind the guard and measured
// like all others.
func (s *Server) Mux() *http.ServeMux { return s.mux }

// Listen binds address and socket, so that a port in use is known before
// anything else starts. Run calls it where it was not called.
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

// Addr is the bound host:port; empty: none is.
func (s *Server) Addr() string {
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// Socket is the path of the bound Unix socket; empty: none is.
func (s *Server) Socket() string {
	if s.socket == nil {
		return ""
	}
	return s.cfg.Socket
}

// URL is where the server is asked: http:// and its address, or unix: and its
// socket's path where nothing listens on loopback.
func (s *Server) URL() string {
	if s.listener == nil {
		return "unix:" + s.Socket()
	}
	return "http://" + s.Addr()
}

// At says to people how a path is asked for: its URL, and over which socket where
// nothing listens on loopback.
func (s *Server) At(path string) string {
	if s.listener == nil {
		return "http://localhost" + path + " (curl --unix-socket " + s.Socket() + ")"
	}
	return s.URL() + path
}

// Close gives up what Listen bound and Run never served.
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

// Run serves until ctx ends, lets running requests finish, and returns nil. The
// loss of one listener ends the other too, and is an error.
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
		failed = fmt.Errorf("serve HTTP: %w", err) // it names the listener
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		s.deps.Log.Warn("requests cut off while stopping", "address", s.Addr(), "error", err)
		failed = errors.Join(failed, server.Close())
	}
	serving.Wait() // a Serve that began after Shutdown closes its listener itself
	return failed
}
