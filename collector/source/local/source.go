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

// Seen is what one run of a library's calls saw.
type Seen struct {
	Reading Reading
	// Nothing says that Reading is none, and Err why. Else Err names what of the
	// node is missing in Reading.
	Nothing bool
	Err     error
	// Idle is a look's that asked nobody: nothing was read yet.
	Idle bool
}

// Library reads a node's GPUs by calls into C that can't be broken off. Its
// functions run in a goroutine, one at a time.
type Library struct {
	Name string // "DCGM", for errors
	// Read reads all of a slot that has just ended.
	Read func(source.Slot) Seen
	// Look lists the GPUs with their instances, without values.
	Look func() Seen
	// Deliver completes a reading that will be a batch, by what is told once: XIDs
	// and resets. A reading that comes too late is never delivered.
	Deliver func(*Reading)
	// Close leaves the library.
	Close func()
	// Blocked counts calls that didn't return in time.
	Blocked prometheus.Counter
}

// Source is a source of one library's readings. A call that hangs costs readings
// and never the slot loop: the next ones wait for it, and none is made beside it.
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

// Read states what was seen of a slot that has just ended. Without a reading there
// is no batch; errors name what is missing or left out. It returns by four fifths
// of a slot even when the library doesn't; what that answers later is nobody's.
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

// lookBound is how long a look between readings, and leaving, may take.
const lookBound = 2 * time.Second

// Watch looks which instances there are, so that a reconfiguration is seen
// within a second or so. It says nothing of errors: the next Read will.
func (s *Source) Watch() {
	seen, err := s.run(context.Background(), lookBound, s.lib.Look)
	switch {
	case err != nil || seen.Err != nil:
		s.builder.Blind(s.deps.Clock.Now())
	case !seen.Idle:
		s.builder.Look(seen.Reading.At, seen.Reading.GPUs)
	}
}

// Commit says that the batch of the last Read is spooled.
func (s *Source) Commit() { s.builder.Commit() }

// Inform replaces what Info says.
func (s *Source) Inform(info source.Info) { s.info.Store(&info) }

// Info is what the node's stack says of itself, as of the last reading that asked.
func (s *Source) Info() source.Info {
	info := s.info.Load()
	if info == nil {
		return source.Info{}
	}
	out := *info
	out.GPUs = maps.Clone(info.GPUs)
	return out
}

// Close leaves the library. It must not run beside Read or Watch; a call that
// hangs is left behind.
func (s *Source) Close() {
	if _, err := s.run(context.Background(), lookBound, func() Seen { s.lib.Close(); return Seen{} }); err != nil {
		s.deps.Log.Warn(s.lib.Name+" is left as it is", "error", err)
	}
}

// job is a run of C calls.
type job struct {
	since time.Time
	done  chan Seen
}

// run does work in a goroutine of its own and waits for it, up to a bound. One
// that is still running from before is waited for first, and what it saw dropped.
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

// ErrBlocked is a call into a library that hasn't returned in time.
var ErrBlocked = errors.New("has not answered")

func (s *Source) blocked(cause error) error {
	err := fmt.Errorf("%s %w since %s", s.lib.Name, ErrBlocked, s.job.since.UTC().Format(time.RFC3339))
	if cause != nil {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
