// Package lifecycle starts services one after the other and stops them in the reverse
// order, each after everything that was started later has drained.
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
	// StopTimeout is how long one service may take to drain before the group
	// goes on without it; every service can be killed at any instruction.
	StopTimeout time.Duration
}

// Group runs services that were started one after the other and stops them in
// reverse. It is used from one goroutine.
type Group struct {
	opts    Options
	base    context.Context // without cancellation: only the group ends a service
	members []*member
	ended   chan *member
}

type member struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error // set before done is closed
}

// New returns an empty group. Services get ctx's values, and are cancelled
// by the group alone.
func New(ctx context.Context, opts Options) *Group {
	return &Group{opts: opts, base: context.WithoutCancel(ctx), ended: make(chan *member, 1)}
}

// Go starts a service. run works until its context ends, drains, and returns
// nil; whatever it returns earlier ends the whole group.
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
		default: // an earlier one is already the reason
		}
	}()
}

// OnStop has stop called when the group stops what was started before, in the
// place that it holds in the order of starting.
func (g *Group) OnStop(name string, stop func() error) {
	g.Go(name, func(ctx context.Context) error {
		<-ctx.Done()
		return stop()
	})
}

// Wait blocks until ctx ends or a service does, then stops all. The first error
// wins; later ones are logged. It is nil when ctx ended and all drained.
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
		return fmt.Errorf("stop %s: still draining after %s", m.name, g.opts.StopTimeout)
	}
	// A service that hands its own cancellation back has drained.
	if m.err == nil || errors.Is(m.err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("run %s: %w", m.name, m.err)
}
