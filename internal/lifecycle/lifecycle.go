// Package lifecycle starts services one after the other and stops them in reverse order, each after all services
// started later have stopped.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gputally/gputally/internal/clock"
)

// Options are a Group's dependencies.
type Options struct {
	Clock clock.Clock
	Log   *slog.Logger
	// StopTimeout is how long one service may take to stop before the group continues without it; every service
	// tolerates being killed at any time.
	StopTimeout time.Duration
}

// Group runs services and stops them in reverse order of their start. It is not safe for concurrent use.
type Group struct {
	opts    Options
	base    context.Context // not cancelled: only the group stops a service
	members []*member
	ended   chan *member
}

type member struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error // set before done is closed
}

// New returns an empty group. Services get ctx's values, but only the group cancels them.
func New(ctx context.Context, opts Options) *Group {
	return &Group{opts: opts, base: context.WithoutCancel(ctx), ended: make(chan *member, 1)}
}

// Go starts a service. run works until its context ends, and then returns nil; if it returns earlier, the whole group
// is stopped.
func (g *Group) Go(name string, run func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(g.base)
	m := &member{name: name, cancel: cancel, done: make(chan struct{})}
	g.members = append(g.members, m)
	g.opts.Log.Debug("service starts", "service", name)
	go func() {
		m.err = run(ctx)
		if m.err == nil && ctx.Err() == nil {
			m.err = errors.New("ended by itself")
		}
		close(m.done)
		select {
		case g.ended <- m:
		default: // an earlier service is the reason already
		}
	}()
}

// OnStop adds a function that the group calls while stopping, after everything started later has stopped.
func (g *Group) OnStop(name string, stop func() error) {
	g.Go(name, func(ctx context.Context) error {
		<-ctx.Done()
		return stop()
	})
}

// Wait blocks until ctx or a service ends, then stops all. It returns the first error and logs later ones; nil if ctx
// ended and all services stopped.
func (g *Group) Wait(ctx context.Context) error {
	var first error
	select {
	case <-ctx.Done():
		g.opts.Log.Debug("stopping", "reason", context.Cause(ctx))
	case m := <-g.ended:
		first = fmt.Errorf("run %s: %w", m.name, m.err)
	}
	return g.stop(first)
}

// Stop stops all services in reverse order and returns the first error.
func (g *Group) Stop() error { return g.stop(nil) }

func (g *Group) stop(first error) error {
	for i := len(g.members) - 1; i >= 0; i-- {
		m := g.members[i]
		err := g.stopOne(m)
		if err == nil {
			continue
		}
		if first == nil {
			first = err
		} else if first.Error() != err.Error() {
			g.opts.Log.Error("service failed while stopping", "service", m.name, "error", err)
		}
	}
	g.members = nil
	return first
}

func (g *Group) stopOne(m *member) error {
	m.cancel()
	timer := g.opts.Clock.NewTimer(g.opts.StopTimeout)
	defer timer.Stop()
	select {
	case <-m.done:
	case <-timer.C():
		return fmt.Errorf("stop %s: still running after %s", m.name, g.opts.StopTimeout)
	}
	// A service that returns its own cancellation has stopped as well.
	if m.err == nil || errors.Is(m.err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("run %s: %w", m.name, m.err)
}
