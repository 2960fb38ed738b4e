package dcgm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/board"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

// Deps are what a Source works with.
type Deps struct {
	Builder  *board.Builder
	Clock    clock.Clock
	Log      *slog.Logger
	Registry prometheus.Registerer
}

// Source reads the GPUs of its own node from DCGM.
type Source struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	extra   []uint16          // configured fields
	told    map[string]string // what was logged of a watch last

	job *job // a reading that DCGM hasn't answered yet; nil: none

	// What follows belongs to the running job.
	session  *session
	slot     time.Duration // of the last Read; 0: none yet
	dialled  int           // connections made
	failures int           // to connect and watch, in a row
	retryAt  time.Time
	lastErr  error
	known    map[uint32]identity // GPUs that answered, by DCGM's id
	history  history
	pending  pending

	mu   sync.Mutex
	info source.Info
}

// session is a connection and what was made over it.
type session struct {
	link    *link
	layout  *layout
	watches *watches
	remake  bool // groups and watches, whatever the inventory says
	ready   bool // was watched once
}

var (
	_ source.Source    = (*Source)(nil)
	_ source.Watcher   = (*Source)(nil)
	_ source.Informer  = (*Source)(nil)
	_ source.Committer = (*Source)(nil)
)

// New makes a source that loads and connects nothing before the first Read or Watch.
func New(cfg Config, deps Deps) (*Source, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure DCGM source: %w", err)
	}
	extra, err := extraFields(cfg.Fields)
	if err != nil {
		return nil, fmt.Errorf("configure DCGM source: %w", err)
	}
	return &Source{
		cfg: cfg, deps: deps, metrics: newMetrics(deps.Registry), extra: extra,
		told: map[string]string{}, known: map[uint32]identity{}, history: newHistory(), info: source.Info{GPUs: map[string]source.GPUInfo{}},
	}, nil
}

// Read reads the values of a slot that has just ended. Without a connection
// there is no batch; while the driver is away there is one that lists nothing.
// Errors name what is missing or left out. It returns by four fifths of a slot
// even when DCGM doesn't; what DCGM answers later counts for the next slot.
func (s *Source) Read(ctx context.Context, slot source.Slot) ([]*wire.Batch, error) {
	seen, err := s.run(ctx, slot.Length*4/5, func() sight { return s.read(slot) })
	if err == nil && seen.nothing {
		err = seen.err
	}
	if err != nil {
		s.deps.Builder.Blind(s.deps.Clock.Now())
		return nil, fmt.Errorf("read DCGM: %w", err)
	}
	reading := seen.reading
	reading.XIDs = s.pending.take(reading.Boards, reading.Complete)
	batch, err := s.deps.Builder.Batch(slot, reading)
	if err := errors.Join(seen.err, err); err != nil {
		return []*wire.Batch{batch}, fmt.Errorf("read DCGM: %w", err)
	}
	return []*wire.Batch{batch}, nil
}

// watchBound is how long Watch waits for DCGM.
const watchBound = 2 * time.Second

// Watch looks which instances there are, so that a reconfiguration is seen
// within a second or so. It connects, too, where there is no connection.
func (s *Source) Watch() {
	seen, err := s.run(context.Background(), watchBound, s.look)
	if err != nil || seen.nothing || nothingThere(seen.err) {
		s.deps.Builder.Blind(s.deps.Clock.Now())
		return
	}
	s.deps.Builder.Look(seen.reading.At, seen.reading.Boards)
}

// Commit says that the batch of the last Read is spooled.
func (s *Source) Commit() { s.deps.Builder.Commit() }

// Info is what the host engine said when it was connected, or when its GPUs
// changed last.
func (s *Source) Info() source.Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
}

// Close ends the connection. It must not run beside Read or Watch. A call that
// DCGM hasn't answered is left alone.
func (s *Source) Close() {
	if _, err := s.run(context.Background(), watchBound, func() sight { s.hangUp(); return sight{} }); err != nil {
		s.deps.Log.Warn("DCGM connection not closed", "error", err)
	}
}
