package dcgm

import (
	"context"
	"fmt"
	"time"

	"github.com/gputally/gputally/collector/source/board"
)

// sight is what a job saw.
type sight struct {
	reading board.Reading
	nothing bool // reading says nothing
	err     error
}

// job is a run of C calls, which can't be interrupted.
type job struct {
	since time.Time
	done  chan sight
}

// run does work in a goroutine of its own and waits for it, up to a bound. One
// that is still running from before is waited for first, and its sight dropped.
func (s *Source) run(ctx context.Context, bound time.Duration, work func() sight) (sight, error) {
	timer := s.deps.Clock.NewTimer(bound)
	defer timer.Stop()
	for {
		started := s.job == nil
		if started {
			s.job = &job{since: s.deps.Clock.Now(), done: make(chan sight, 1)}
			go func(done chan<- sight) { done <- work() }(s.job.done)
		}
		select {
		case seen := <-s.job.done:
			s.job = nil
			if started {
				return seen, nil
			}
		case <-timer.C():
			s.metrics.blocked.Inc()
			return sight{}, fmt.Errorf("DCGM has not answered since %s", s.job.since.UTC().Format(time.RFC3339))
		case <-ctx.Done():
			return sight{}, fmt.Errorf("DCGM has not answered since %s: %w", s.job.since.UTC().Format(time.RFC3339), ctx.Err())
		}
	}
}
