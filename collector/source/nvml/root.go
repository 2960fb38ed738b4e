package nvml

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

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

// Source reads the GPUs of its own node from NVML.
type Source struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	info    atomic.Pointer[source.Info]

	// busy is held by whoever is in the driver, which may be for long; it guards
	// all that follows.
	busy   chan struct{}
	lib    *library // nil: not loaded yet
	up     bool     // initialised
	upAt   time.Time
	away   bool // the driver was away since the last reading
	gpus   map[string]*gpu
	events *events
	said   map[string]bool
	query  gonvml.GpmMetricsGetType // reused: it is 13 KiB
}

var (
	_ source.Source    = (*Source)(nil)
	_ source.Informer  = (*Source)(nil)
	_ source.Committer = (*Source)(nil)
	_ source.Watcher   = (*Source)(nil)
)

// New loads and calls nothing before the first Read.
func New(cfg Config, deps Deps) (*Source, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure nvml: %w", err)
	}
	return &Source{
		cfg: cfg, deps: deps, metrics: newMetrics(deps.Registry),
		busy: make(chan struct{}, 1), gpus: map[string]*gpu{}, said: map[string]bool{}, events: &events{},
	}, nil
}

// What Read says of calls that don't come back: of its own, and of an earlier one's.
var (
	errSlow  = errors.New("read nvml: the driver doesn't answer")
	errHangs = errors.New("read nvml: the driver hasn't answered an earlier reading yet")
)

// Read reads all boards. Boards that can't be read, and why, stand in the error
// beside the batch, which is partial then. It returns by four fifths of a slot
// even when the driver doesn't; what that answers later is nobody's.
func (s *Source) Read(ctx context.Context, slot source.Slot) ([]*wire.Batch, error) {
	var reading board.Reading
	var failed error
	read := func() error {
		var err error
		reading, failed, err = s.gather(slot)
		return err
	}
	if err := s.within(ctx, slot.Length*4/5, read); err != nil {
		s.deps.Builder.Blind(s.deps.Clock.Now())
		return nil, err
	}
	s.away = false
	reading.XIDs = s.events.take()
	b, err := s.deps.Builder.Batch(slot, reading)
	return []*wire.Batch{b}, errors.Join(failed, err)
}

// within runs what calls the driver, and leaves it to itself when ctx or the time
// is over first.
func (s *Source) within(ctx context.Context, bound time.Duration, call func() error) error {
	select {
	case s.busy <- struct{}{}:
	default:
		return errHangs
	}
	done := make(chan error, 1)
	go func() {
		err := call()
		<-s.busy
		done <- err
	}()
	timer := s.deps.Clock.NewTimer(bound)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		s.metrics.hangs.Inc()
		return fmt.Errorf("%w: %w", errSlow, ctx.Err())
	case <-timer.C():
		s.metrics.hangs.Inc()
		return fmt.Errorf("%w within %v", errSlow, bound)
	}
}

// gather reads what the batch needs. Boards that failed stand in the first
// error; with the second there is no reading at all.
func (s *Source) gather(slot source.Slot) (r board.Reading, failed, err error) {
	if err := s.start(); err != nil {
		return r, nil, err
	}
	present, complete, failed := s.enumerate()
	if gone(failed) {
		return r, nil, s.stop(failed)
	}
	for _, g := range present {
		brd, err := s.read(g, slot)
		switch {
		case gone(err):
			return r, nil, s.stop(err)
		case err != nil:
			failed, complete = errors.Join(failed, fmt.Errorf("read gpu %s: %w", g.uuid, err)), false
			continue
		}
		r.Boards = append(r.Boards, brd)
	}
	s.listen(present)
	s.learn(present)
	r.At, r.Complete = s.deps.Clock.Now(), complete
	return r, failed, nil
}

// bound is how long a look between readings, and leaving, may take.
const bound = 2 * time.Second

// Watch looks which MIG instances there are, and whether a driver that was away is
// back. It says nothing of errors: the next Read will.
func (s *Source) Watch() {
	var boards []board.Board
	began := false
	look := func() (err error) {
		if began = s.up || s.away; !began { // nothing was read yet
			return nil
		}
		if err = s.start(); err == nil {
			boards, err = s.layouts()
		}
		return err
	}
	err := s.within(context.Background(), bound, look)
	switch {
	case err != nil:
		s.deps.Builder.Blind(s.deps.Clock.Now())
	case began:
		s.deps.Builder.Look(s.deps.Clock.Now(), boards)
	}
}

// Commit says that the batch of the last Read is spooled.
func (s *Source) Commit() { s.deps.Builder.Commit() }

// Close ends the goroutine that waits for XIDs and leaves the driver. It must not
// run beside Read or Watch; a call that hangs is left behind.
func (s *Source) Close() {
	if err := s.within(context.Background(), bound, func() error { s.leave(); return nil }); err != nil {
		s.deps.Log.Warn("nvml is left as it is", "error", err)
	}
}

// start initialises NVML unless it is.
func (s *Source) start() error {
	if s.up && s.deps.Clock.Since(s.upAt) >= renewAfter && s.anyLost() {
		s.leave()
	}
	if s.up {
		return nil
	}
	err := s.initialise()
	if err != nil {
		s.away = s.away || gone(err)
		s.metrics.inits.WithLabelValues("error").Inc()
		return fmt.Errorf("read nvml: %w", err)
	}
	s.metrics.inits.WithLabelValues("ok").Inc()
	s.up, s.upAt = true, s.deps.Clock.Now()
	return nil
}

func (s *Source) initialise() error {
	if s.lib == nil {
		lib, err := load(s.cfg.Library)
		if err != nil {
			return err
		}
		s.lib = lib
	}
	if ret := s.lib.api.Init(); ret != gonvml.SUCCESS {
		return fmt.Errorf("initialise NVML: %w (%s)", ret, advice(ret))
	}
	return nil
}

// stop leaves a driver that is away; the next reading begins anew.
func (s *Source) stop(cause error) error {
	s.leave()
	s.away = true
	return fmt.Errorf("read nvml: the driver was unloaded or reloaded, the next reading begins anew: %w", cause)
}

// leave frees what is held and shuts NVML down.
func (s *Source) leave() {
	if !s.up {
		return
	}
	s.events.close()
	for _, g := range s.gpus {
		g.freeSamplers()
		g.forget()
	}
	if ret := s.lib.api.Shutdown(); ret != gonvml.SUCCESS && ret != gonvml.ERROR_UNINITIALIZED {
		s.deps.Log.Warn("nvml did not shut down", "error", ret)
	}
	s.up = false
}

// sayOnce logs what stays as it is as long as the process.
func (s *Source) sayOnce(what string, args ...any) {
	if !s.said[what] {
		s.said[what] = true
		s.deps.Log.Warn(what, args...)
	}
}
