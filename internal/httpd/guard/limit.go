package guard

import (
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// maxClients bounds the memory of the limiter.
const maxClients = 4096

// limiter is a token bucket per client: Burst tokens, one more every interval. A bucket is stored as the instant at
// which it will be full again (generic cell rate algorithm).
type limiter struct {
	interval time.Duration
	burst    time.Duration // the time to fill an empty bucket

	mu   sync.Mutex
	full map[netip.Addr]time.Time
}

func newLimiter(ratePerSecond, burst int) *limiter {
	interval := time.Second / time.Duration(ratePerSecond)
	return &limiter{interval: interval, burst: time.Duration(burst) * interval, full: map[netip.Addr]time.Time{}}
}

// take takes a token; if there is none, it returns how long to wait for one.
func (l *limiter) take(client netip.Addr, now time.Time) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	full := l.full[client]
	if full.Before(now) {
		full = now
	}
	// If the clock was set back, the client would be locked out until then.
	if latest := now.Add(l.burst); full.After(latest) {
		full = latest
	}
	if _, known := l.full[client]; !known && len(l.full) >= maxClients {
		l.forget(now)
	}
	if wait = full.Add(l.interval).Sub(now) - l.burst; wait > 0 {
		l.full[client] = full
		return wait, false
	}
	l.full[client] = full.Add(l.interval)
	return 0, true
}

// forget removes a quarter of the clients: first those whose bucket is full, then any.
func (l *limiter) forget(now time.Time) {
	for client, full := range l.full {
		if !full.After(now) {
			delete(l.full, client)
		}
	}
	for client := range l.full {
		if len(l.full) < maxClients*3/4 {
			return
		}
		delete(l.full, client)
	}
}

// ipv6Site is the prefix within which one client is assumed to have all addresses.
const ipv6Site = 64

// clientOf is the client to which a request is counted. All loopback addresses are one client, since every user of
// the machine can use 2^24 of them; requests without an address, those on the Unix socket, are another.
func clientOf(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.IsLoopback() {
		return netip.IPv6Loopback()
	}
	if addr.Is6() {
		if site, err := addr.Prefix(ipv6Site); err == nil {
			return site.Addr()
		}
	}
	return addr
}
