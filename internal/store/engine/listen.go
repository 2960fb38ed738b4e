package engine

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/gputally/gputally/internal/unixsock"
)

// lockEvery is how often Serve checks whether the directory is unlocked.
const lockEvery = 50 * time.Millisecond

// Serve opens the engine on o.Dir, serves it on o.Socket, and returns nil when ctx or o.Stdin ends, after closing
// every connection and releasing the lock. The parent holds the other end of Stdin, so the helper ends when the
// parent dies.
func Serve(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.Stdin != nil {
		go func() {
			_, _ = io.Copy(io.Discard, o.Stdin)
			cancel()
		}()
	}
	if err := awaitUnlocked(ctx, o); err != nil {
		return err
	}
	e, err := Open(o)
	if err != nil {
		return err
	}
	defer e.Close()
	return e.ListenAndServe(ctx, o.Socket)
}

// awaitUnlocked waits for a helper whose parent has died to end. Open checks the options.
func awaitUnlocked(ctx context.Context, o Options) error {
	if err := o.normalize(); err != nil {
		return err
	}
	limit := o.Clock.NewTimer(o.LockWait)
	defer limit.Stop()
	ticker := o.Clock.NewTicker(lockEvery)
	defer ticker.Stop()
	for {
		err := checkUnlocked(o.Dir)
		if err == nil {
			return nil
		}
		select {
		case <-limit.C():
			return err
		case <-ctx.Done():
			return err
		case <-ticker.C():
		}
	}
}

// ListenAndServe serves on a Unix socket until ctx ends. The socket of a dead process is replaced: since the
// directory was unlocked, that process has ended.
func (e *Engine) ListenAndServe(ctx context.Context, socket string) error {
	listener, err := unixsock.Listen(ctx, socket)
	if err != nil {
		return err
	}
	e.log.Info("engine serving", "socket", socket)
	return e.Serve(ctx, listener)
}

// Serve answers on listener until ctx ends; running statements may then continue for Options.Drain and are killed
// after it.
func (e *Engine) Serve(ctx context.Context, listener net.Listener) error {
	base, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	server := &http.Server{
		Handler:           e,
		ReadHeaderTimeout: time.Minute,
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve engine on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	drain, done := context.WithTimeout(context.WithoutCancel(ctx), e.drain)
	defer done()
	if err := server.Shutdown(drain); err != nil {
		kill()
		_ = server.Close()
	}
	return nil
}
