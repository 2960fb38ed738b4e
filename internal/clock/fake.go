package clock

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Fake is a Clock whose time changes only by Advance or Set. It is safe for concurrent use.
type Fake struct {
	mu      sync.Mutex
	now     time.Time
	waiters []*fakeTimer
	changed chan struct{} // closed and replaced whenever waiters changes
}

// NewFake returns a clock set to now.
func NewFake(now time.Time) *Fake {
	return &Fake{now: now, changed: make(chan struct{})}
}

// Now is the clock's current time.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Since is Now() minus t.
func (f *Fake) Since(t time.Time) time.Duration { return f.Now().Sub(t) }

// NewTimer returns a timer that Advance fires.
func (f *Fake) NewTimer(d time.Duration) Timer {
	t := &fakeTimer{clock: f, c: make(chan time.Time, 1)}
	t.Reset(d)
	return t
}

// NewTicker returns a ticker that Advance fires once for every elapsed period; a tick that isn't received is dropped.
func (f *Fake) NewTicker(d time.Duration) Ticker {
	if d <= 0 {
		panic("clock: non-positive interval for NewTicker")
	}
	t := &fakeTimer{clock: f, c: make(chan time.Time, 1), period: d}
	t.Reset(d)
	return fakeTicker{t}
}

// Advance moves the clock by d and fires, in order, every timer due by then. While a timer fires, Now is that timer's
// deadline. A negative d sets the clock back and fires nothing.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moveTo(f.now.Add(d))
}

// Set moves the clock to t, as Advance does.
func (f *Fake) Set(t time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moveTo(t)
}

// BlockUntil waits until at least n timers and tickers are running, by which a test notices that the tested code is
// waiting. It returns ctx's error if ctx ends first.
func (f *Fake) BlockUntil(ctx context.Context, n int) error {
	for {
		f.mu.Lock()
		running, changed := len(f.waiters), f.changed
		f.mu.Unlock()
		if running >= n {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func (f *Fake) moveTo(target time.Time) {
	for len(f.waiters) > 0 && !f.waiters[0].at.After(target) {
		t := f.waiters[0]
		f.remove(t)
		if t.at.After(f.now) {
			f.now = t.at
		}
		t.fire()
	}
	f.now = target
}

func (f *Fake) add(t *fakeTimer) {
	// After those with equal deadlines, so that timers fire in the order in which they were started.
	i := len(f.waiters)
	for i > 0 && f.waiters[i-1].at.After(t.at) {
		i--
	}
	f.waiters = slices.Insert(f.waiters, i, t)
	f.announce()
}

func (f *Fake) remove(t *fakeTimer) bool {
	i := slices.Index(f.waiters, t)
	if i < 0 {
		return false
	}
	f.waiters = slices.Delete(f.waiters, i, i+1)
	f.announce()
	return true
}

func (f *Fake) announce() {
	close(f.changed)
	f.changed = make(chan struct{})
}

type fakeTimer struct {
	clock  *Fake
	c      chan time.Time
	at     time.Time
	period time.Duration // 0: fires once
}

func (t *fakeTimer) C() <-chan time.Time { return t.c }

func (t *fakeTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.drain()
	return t.clock.remove(t)
}

func (t *fakeTimer) Reset(d time.Duration) bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.drain()
	was := t.clock.remove(t)
	t.at = t.clock.now.Add(d)
	if d <= 0 {
		t.fire()
		return was
	}
	t.clock.add(t)
	return was
}

// fire is called with the clock's lock held; the channel has a buffer of one, so further ticks are dropped.
func (t *fakeTimer) fire() {
	select {
	case t.c <- t.at:
	default:
	}
	if t.period > 0 {
		t.at = t.at.Add(t.period)
		t.clock.add(t)
	}
}

func (t *fakeTimer) drain() {
	select {
	case <-t.c:
	default:
	}
}

type fakeTicker struct{ *fakeTimer }

func (t fakeTicker) Stop() { t.fakeTimer.Stop() }

func (t fakeTicker) Reset(d time.Duration) {
	if d <= 0 {
		panic("clock: non-positive interval for Ticker.Reset")
	}
	t.clock.mu.Lock()
	t.period = d
	t.clock.mu.Unlock()
	t.fakeTimer.Reset(d)
}
