package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
)

// setting is one query-level setting.
type setting struct{ name, value string }

// session is what a connection carries between statements: two requests with
// the same session may share a connection.
type session struct {
	database string
	settings []setting // sorted by name
}

func (s session) equal(o session) bool {
	return s.database == o.database && slices.Equal(s.settings, o.settings)
}

func sortSettings(settings []setting) {
	slices.SortFunc(settings, func(a, b setting) int { return strings.Compare(a.name, b.name) })
}

var errClosed = errors.New("the engine is closed")

// pool keeps idle connections, the least recently used first. Opening one
// costs about 0.1 ms, so it errs on the side of throwing them away.
type pool struct {
	open    func() (*conn, error)
	maxIdle int
	slots   chan struct{} // one per connection in use

	mu     sync.Mutex
	idle   []*conn
	opened uint64
	closed bool
}

func newPool(open func() (*conn, error), maxIdle, maxInUse int) *pool {
	return &pool{open: open, maxIdle: maxIdle, slots: make(chan struct{}, maxInUse)}
}

// get hands out a connection in the session, waiting for a slot until ctx ends.
func (p *pool) get(ctx context.Context, s session) (*conn, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, raise(codeQueryWasCancelled, "the client left while waiting for a connection")
	}
	c, err := p.take(s)
	if err != nil {
		<-p.slots
		return nil, err
	}
	return c, nil
}

func (p *pool) take(s session) (*conn, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errClosed
	}
	for i := len(p.idle) - 1; i >= 0; i-- {
		if c := p.idle[i]; c.session.equal(s) {
			p.idle = slices.Delete(p.idle, i, i+1)
			p.mu.Unlock()
			return c, nil
		}
	}
	p.opened++
	id := connID(p.opened)
	p.mu.Unlock()
	c, err := p.open()
	if err != nil {
		return nil, err
	}
	if err := c.begin(id, s); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// put takes a connection back; a dirty one is closed.
func (p *pool) put(c *conn) {
	defer func() { <-p.slots }()
	p.mu.Lock()
	var evicted *conn
	switch {
	case p.closed || c.dirty:
		evicted = c
	default:
		p.idle = append(p.idle, c)
		if len(p.idle) > p.maxIdle {
			evicted = p.idle[0]
			p.idle = slices.Delete(p.idle, 0, 1)
		}
	}
	p.mu.Unlock()
	if evicted != nil {
		evicted.close()
	}
}

// close refuses new work, waits until all connections are back and closes them.
func (p *pool) close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
	for range cap(p.slots) {
		p.slots <- struct{}{}
	}
}
