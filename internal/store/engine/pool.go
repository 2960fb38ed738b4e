package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// setting is one query-level setting.
type setting struct{ name, value string }

// session has the settings with which a statement runs.
type session struct {
	database string
	settings []setting // sorted by name
}

func sortSettings(settings []setting) {
	slices.SortFunc(settings, func(a, b setting) int { return strings.Compare(a.name, b.name) })
}

var errClosed = errors.New("the engine is closed")

// pool bounds the connections in use. Each statement has its own, so that none affects another; opening one takes
// about half a millisecond.
type pool struct {
	open   func() (*conn, error)
	most   int64
	places *semaphore.Weighted
	opened atomic.Uint64
	closed atomic.Bool
}

func newPool(open func() (*conn, error), most int64) *pool {
	return &pool{open: open, most: most, places: semaphore.NewWeighted(most)}
}

// get opens a connection with the session, and waits for a free place until ctx ends.
func (p *pool) get(ctx context.Context, s session) (_ *conn, err error) {
	if p.places.Acquire(ctx, 1) != nil {
		return nil, raise(codeQueryWasCancelled, "the client disconnected while waiting for a connection")
	}
	defer func() {
		if err != nil {
			p.places.Release(1)
		}
	}()
	if p.closed.Load() {
		return nil, errClosed
	}
	c, err := p.open()
	if err != nil {
		return nil, err
	}
	if err := c.begin(connID(p.opened.Add(1)), s); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// put closes a connection.
func (p *pool) put(c *conn) {
	c.close()
	p.places.Release(1)
}

// close refuses new connections and waits until all are closed.
func (p *pool) close() {
	p.closed.Store(true)
	_ = p.places.Acquire(context.Background(), p.most) // never fails: its context doesn't end
	p.places.Release(p.most)
}
