package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/internal/wire"
)

// Seen is the result of one run of a library's calls.
type Seen struct {
	Reading Reading
	// Nothing: there is no Reading, and Err is why. Otherwise Err lists what is missing in Reading.
	Nothing bool
	Err     error
	// Idle is the result of a look before the first reading.
	Idle bool
}

// Library reads a node's GPUs by calls into C that can't be cancelled. Its functions run in a goroutine, one at a
// time.
type Library struct {
	Name string // "DCGM", for errors
	// Read reads all values of a slot that has just ended.
	Read func(source.Slot) Seen
	// Look lists the GPUs with their instances, without values.
	Look func() Seen
	// Deliver adds the XIDs and resets, which are reported once, to a reading that will become a batch; it isn't
	// called for a reading that comes too late.
	Deliver func(*Reading)
	// Close closes the library.
	Close func()
	// Blocked counts calls that didn't return in time.
	Blocked prometheus.Counter
}

// Source is a source with one library. A call that hangs loses readings but doesn't block the slot loop: the next
// readings wait for it, and no other call runs at the same time.
type Source struct {
	lib     Library
	builder *Builder
	deps    Deps // the Builder's
	job     *job // that hasn't ended; nil: none
	info    atomic.Pointer[source.Info]
}

var (
	_ source.Source    = (*Source)(nil)
	_ source.Watcher   = (*Source)(nil)
	_ source.Informer  = (*Source)(nil)
	_ source.Committer = (*Source)(nil)
)

// NewSource calls nothing before the first Read or Watch.
func NewSource(lib Library, b *Builder) *Source { return &Source{lib: lib, builder: b, deps: b.deps} }

// Read returns the batch of a slot that has just ended. Without a reading there is no batch; errors list what is
// missing or left out. It returns after four fifths of a slot even if the library doesn't; a later answer is dropped.
func (s *Source) Read(ctx context.Context, slot source.Slot) ([]*wire.Batch, error) {
	seen, err := s.run(ctx, slot.Length*4/5, func() Seen { return s.lib.Read(slot) })
	if err == nil && seen.Nothing {
		err = seen.Err
	}
	if err != nil {
		s.builder.Blind(s.deps.Clock.Now())
		return nil, fmt.Errorf("read %s: %w", s.lib.Name, err)
	}
	s.lib.Deliver(&seen.Reading)
	batch, err := s.builder.Batch(slot, seen.Reading)
	if err := errors.Join(seen.Err, err); err != nil {
		return []*wire.Batch{batch}, fmt.Errorf("read %s: %w", s.lib.Name, err)
	}
	return []*wire.Batch{batch}, nil
}

// lookBound bounds a look between readings, and closing.
const lookBound = 2 * time.Second

// Watch lists the instances, so that a reconfiguration is noticed within about a second. Errors are left to the next
// Read.
func (s *Source) Watch() {
	seen, err := s.run(context.Background(), lookBound, s.lib.Look)
	switch {
	case err != nil || seen.Err != nil:
		s.builder.Blind(s.deps.Clock.Now())
	case !seen.Idle:
		s.builder.Look(seen.Reading.At, seen.Reading.GPUs)
	}
}

// Commit records that the batch of the last Read is spooled.
func (s *Source) Commit() { s.builder.Commit() }

// Inform sets the result of Info.
func (s *Source) Inform(info source.Info) { s.info.Store(&info) }

// Info is the information of the last reading that queried it.
func (s *Source) Info() source.Info {
	info := s.info.Load()
	if info == nil {
		return source.Info{}
	}
	out := *info
	out.GPUs = maps.Clone(info.GPUs)
	return out
}

// Close closes the library. It must not run at the same time as Read or Watch; a call that hangs is left running.
func (s *Source) Close() {
	if _, err := s.run(context.Background(), lookBound, func() Seen { s.lib.Close(); return Seen{} }); err != nil {
		s.deps.Log.Warn(s.lib.Name+" was not closed", "error", err)
	}
}

// job is a run of C calls.
type job struct {
	since time.Time
	done  chan Seen
}

// run runs work in a goroutine and waits for it, up to a bound. If an earlier run hasn't ended, it waits for that
// first and drops its result.
func (s *Source) run(ctx context.Context, bound time.Duration, work func() Seen) (Seen, error) {
	timer := s.deps.Clock.NewTimer(bound)
	defer timer.Stop()
	for {
		started := s.job == nil
		if started {
			s.job = &job{since: s.deps.Clock.Now(), done: make(chan Seen, 1)}
			go func(done chan<- Seen) { done <- work() }(s.job.done)
		}
		select {
		case seen := <-s.job.done:
			s.job = nil
			if started {
				return seen, nil
			}
		case <-timer.C():
			s.lib.Blocked.Inc()
			return Seen{}, s.blocked(nil)
		case <-ctx.Done():
			s.lib.Blocked.Inc()
			return Seen{}, s.blocked(ctx.Err())
		}
	}
}

// ErrBlocked means that a call into a library hasn't returned in time.
var ErrBlocked = errors.New("has not answered")

func (s *Source) blocked(cause error) error {
	err := fmt.Errorf("%s %w since %s", s.lib.Name, ErrBlocked, s.job.since.UTC().Format(time.RFC3339))
	if cause != nil {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
