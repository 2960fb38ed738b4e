package clock

import (
	"context"
	"time"
)

// Clock returns the time and creates timers based on it.
type Clock interface {
	// Now is the current instant. From Real it carries Go's monotonic reading.
	Now() time.Time
	// Since is Now() minus t.
	Since(t time.Time) time.Duration
	// NewTimer sends the time once on its channel after d; d <= 0 fires at once.
	NewTimer(d time.Duration) Timer
	// NewTicker sends the time every d and drops ticks that weren't received. d <= 0 panics, as in time.NewTicker.
	NewTicker(d time.Duration) Ticker
}

// Timer is time.Timer behind an interface. After Stop or Reset no stale value
// is received from C.
type Timer interface {
	C() <-chan time.Time
	// Stop returns whether it prevented the timer from firing.
	Stop() bool
	// Reset restarts the timer with d, and returns whether it was running.
	Reset(d time.Duration) bool
}

// Ticker is time.Ticker behind an interface.
type Ticker interface {
	C() <-chan time.Time
	Stop()
	Reset(d time.Duration)
}

// Sleep waits for d on c. It returns ctx's error if ctx ends first.
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C():
		return nil
	}
}
