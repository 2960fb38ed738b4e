package guard

import (
	"context"
	"net/netip"
	"sync"
)

// places are what requests wait for: so many in all, and of one client.
type places struct {
	total     chan struct{}
	perClient int

	mu      sync.Mutex
	clients map[netip.Addr]*client
}

// client is one with requests that wait or are answered.
type client struct {
	places chan struct{}
	users  int
}

func newPlaces(total, perClient int) *places {
	return &places{total: make(chan struct{}, total), perClient: perClient, clients: map[netip.Addr]*client{}}
}

// take waits for a place of the client's, then for one of all. leave, which may
// be called more than once, gives both back.
func (p *places) take(ctx context.Context, addr netip.Addr) (leave func(), err error) {
	c := p.enter(addr)
	select {
	case c.places <- struct{}{}:
	case <-ctx.Done():
		p.leave(addr)
		return nil, ctx.Err()
	}
	select {
	case p.total <- struct{}{}:
	case <-ctx.Done():
		<-c.places
		p.leave(addr)
		return nil, ctx.Err()
	}
	return sync.OnceFunc(func() {
		<-p.total
		<-c.places
		p.leave(addr)
	}), nil
}

func (p *places) enter(addr netip.Addr) *client {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.clients[addr]
	if c == nil {
		c = &client{places: make(chan struct{}, p.perClient)}
		p.clients[addr] = c
	}
	c.users++
	return c
}

func (p *places) leave(addr netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clients[addr].users--; p.clients[addr].users == 0 {
		delete(p.clients, addr)
	}
}
