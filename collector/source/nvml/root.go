package nvml

import (
	"errors"
	"fmt"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/local"
)

// Source reads the GPUs of its own node from NVML. GPUs that can't be read are in Read's error; the batch is then
// partial.
type Source struct {
	*local.Source
	cfg     Config
	deps    local.Deps
	metrics *metrics

	lib    *library // nil: not loaded yet
	up     bool     // initialised
	upAt   time.Time
	away   bool // the driver was unloaded since the last reading
	gpus   map[string]*gpu
	events *events
	said   map[string]bool
	query  gonvml.GpmMetricsGetType // reused: it is 13 KiB
}

// New returns a source that loads and calls nothing before the first Read.
func New(cfg Config, b *local.Builder) (*Source, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure nvml: %w", err)
	}
	s := &Source{
		cfg: cfg, deps: b.Deps(), metrics: newMetrics(b.Deps().Registry),
		gpus: map[string]*gpu{}, said: map[string]bool{}, events: &events{},
	}
	s.Source = local.NewSource(local.Library{
		Name: "nvml", Read: s.gather, Look: s.look, Deliver: s.deliver, Close: s.leave, Blocked: s.metrics.hangs,
	}, b)
	return s, nil
}

// gather reads all GPUs.
func (s *Source) gather(slot source.Slot) local.Seen {
	if err := s.start(); err != nil {
		return local.Seen{Nothing: true, Err: err}
	}
	present, complete, failed := s.enumerate()
	if gone(failed) {
		return local.Seen{Nothing: true, Err: s.stop(failed)}
	}
	var r local.Reading
	for _, g := range present {
		brd, err := s.read(g, slot)
		switch {
		case gone(err):
			return local.Seen{Nothing: true, Err: s.stop(err)}
		case err != nil:
			failed, complete = errors.Join(failed, fmt.Errorf("read gpu %s: %w", g.uuid, err)), false
			continue
		}
		r.GPUs = append(r.GPUs, brd)
	}
	s.listen(present)
	s.learn(present)
	r.At, r.Complete = s.deps.Clock.Now(), complete
	return local.Seen{Reading: r, Err: failed}
}

func (s *Source) deliver(r *local.Reading) {
	s.away = false
	r.XIDs = s.events.take()
}

// look lists the MIG instances, and checks whether an unloaded driver is loaded again.
func (s *Source) look() local.Seen {
	if !s.up && !s.away { // before the first reading
		return local.Seen{Idle: true}
	}
	err := s.start()
	var boards []local.GPU
	if err == nil {
		boards, err = s.layouts()
	}
	return local.Seen{Reading: local.Reading{At: s.deps.Clock.Now(), GPUs: boards}, Err: err}
}

// start initialises NVML unless it is initialised.
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
		return err
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

// stop shuts down after the driver was unloaded; the next reading initialises it again.
func (s *Source) stop(cause error) error {
	s.leave()
	s.away = true
	return fmt.Errorf("the driver was unloaded or reloaded, the next reading initialises NVML again: %w", cause)
}

// leave frees all handles and shuts NVML down.
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
		s.deps.Log.Warn("shutting NVML down failed", "error", ret)
	}
	s.up = false
}

// sayOnce logs a permanent limitation once per process.
func (s *Source) sayOnce(what string, args ...any) {
	if !s.said[what] {
		s.said[what] = true
		s.deps.Log.Warn(what, args...)
	}
}
