package guard

import (
	"context"
	"net/netip"
	"sync"

	"golang.org/x/sync/semaphore"
)

// places bounds the requests in flight, in total and per client.
type places struct {
	total     *semaphore.Weighted
	perClient int64

	mu      sync.Mutex
	clients map[netip.Addr]*client
}

// client is a client with waiting or running requests.
type client struct {
	places *semaphore.Weighted
	users  int
}

func newPlaces(total, perClient int) *places {
	return &places{
		total: semaphore.NewWeighted(int64(total)), perClient: int64(perClient),
		clients: map[netip.Addr]*client{},
	}
}

// take waits for a place of the client, then for one of the total. leave frees both; it may be called more than once.
func (p *places) take(ctx context.Context, addr netip.Addr) (leave func(), err error) {
	c := p.enter(addr)
	if err := c.places.Acquire(ctx, 1); err != nil {
		p.leave(addr)
		return nil, err
	}
	if err := p.total.Acquire(ctx, 1); err != nil {
		c.places.Release(1)
		p.leave(addr)
		return nil, err
	}
	return sync.OnceFunc(func() {
		p.total.Release(1)
		c.places.Release(1)
		p.leave(addr)
	}), nil
}

func (p *places) enter(addr netip.Addr) *client {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.clients[addr]
	if c == nil {
		c = &client{places: semaphore.NewWeighted(p.perClient)}
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
