package dcgm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/local"
)

// Pauses between attempts to connect, doubling; the longest is shorter than the usual slot, so that each reading
// tries.
const (
	firstRetry   = time.Second
	longestRetry = 8 * time.Second
)

// connect opens a session if there is none.
func (s *Source) connect(now time.Time) error {
	if s.session != nil {
		return nil
	}
	if now.Before(s.retryAt) {
		return s.lastErr
	}
	link, err := dial(s.cfg)
	if err != nil {
		s.backOff(now, err)
		return err
	}
	interval, keep := s.sampling()
	s.session = &session{link: link, watches: newWatches(interval, keep, now.UnixMicro()), remake: true}
	s.history.connected(now.UnixMicro())
	s.metrics.connected.Set(1)
	if s.dialled++; s.dialled > 1 {
		s.metrics.reconnects.Inc()
	}
	return nil
}

// backOff counts a failure; the first of consecutive ones is logged as an error.
func (s *Source) backOff(now time.Time, err error) {
	s.retryAt = now.Add(min(firstRetry<<min(s.failures, 10), longestRetry))
	level := slog.LevelDebug
	if s.failures == 0 {
		level = slog.LevelWarn
	}
	s.deps.Log.Log(context.Background(), level, "reading DCGM failed, trying again", "error", err)
	s.failures++
	s.lastErr = err
}

// ready ends consecutive failures: everything possible is watched.
func (s *Source) ready() {
	if s.session.ready {
		return
	}
	s.session.ready = true
	s.failures, s.lastErr = 0, nil
	s.deps.Log.Info("DCGM connected", "mode", s.cfg.Mode, "address", s.cfg.Address, "version", hostengineVersion())
	if s.session.link.embedded && os.Geteuid() != 0 {
		s.deps.Log.Warn("embedded DCGM without root has no MIG and, before Hopper, no profiling; nv-hostengine with mode "+
			"standalone needs no root", "user", os.Geteuid())
	}
}

// hangUp closes the session; all groups and watches end with it.
func (s *Source) hangUp() {
	if s.session == nil {
		return
	}
	s.session.link.close()
	s.session = nil
	s.metrics.connected.Set(0)
}

// lose closes a session after a fatal error.
func (s *Source) lose(now time.Time, err error) error {
	switch codeOf(err) {
	case stConnectionInvalid:
		err = fmt.Errorf("connection to %s lost: %w", s.target(), err)
	case stVersionMismatch:
		err = fmt.Errorf("%s and this node's libdcgm are of incompatible DCGM versions: "+
			"install the same version of both: %w", s.target(), err)
	}
	s.hangUp()
	s.backOff(now, err)
	return err
}

func (s *Source) target() string {
	if s.cfg.Mode == Embedded {
		return "embedded DCGM"
	}
	return "nv-hostengine at " + s.cfg.Address
}

// away records that the host engine has no GPUs now. Their ids may denote others when they reappear.
func (s *Source) away(err error) {
	s.pending.detached = s.pending.detached || errors.Is(err, errDetached)
	s.session.remake = true
}

// refresh updates the session's layout; an error closes the session, except those of nothingThere.
func (s *Source) refresh(now time.Time) error {
	if err := s.connect(now); err != nil {
		return err
	}
	inv, err := s.session.link.list()
	switch {
	case nothingThere(err):
		s.away(err)
		return err
	case err != nil:
		return s.lose(now, err)
	}
	if s.pending.detached { // the GPUs have reappeared
		s.pending.detached = false
		s.pending.resetAll()
	}
	if was := s.session.layout; !s.session.remake && was != nil && was.inv.equal(inv) {
		if err := s.watchProfiles(now.UnixMicro()); err != nil {
			return s.lose(now, err)
		}
		return nil
	}
	if err := s.relayout(inv, now); err != nil {
		return s.lose(now, err)
	}
	s.ready()
	return nil
}

// relayout applies a changed inventory. XIDs of the previous one are read first: the ids of instances denote others
// afterwards.
func (s *Source) relayout(inv *inventory, now time.Time) error {
	ses := s.session
	if ses.layout != nil {
		if err := s.readXIDs(); codeOf(err) == stConnectionInvalid {
			return err
		}
	}
	l, err := arrange(inv, s.known, ses.layout, now.UnixMicro())
	if err != nil {
		return err
	}
	if ses.layout == nil || !ses.layout.inv.equal(inv) {
		s.logLayout(l)
	}
	ses.layout = l
	if err := s.rewatch(now.UnixMicro()); err != nil {
		return err
	}
	ses.remake = l.unnamed
	s.inform(l)
	return nil
}

// logLayout logs the node's GPUs, and those that aren't metered.
func (s *Source) logLayout(l *layout) {
	instances := 0
	for i := range l.boards {
		instances += len(l.boards[i].Instances)
	}
	s.deps.Log.Info("GPUs listed", "gpus", len(l.boards), "instances", instances)
	for _, g := range l.inv.gpus {
		if g.state == hidden {
			s.deps.Log.Warn("GPU not metered: DCGM doesn't support it, or may not read it", "gpu", g.id)
		}
	}
}

// inform publishes the node's versions.
func (s *Source) inform(l *layout) {
	info := source.Info{DCGM: hostengineVersion(), GPUs: make(map[string]source.GPUInfo, len(l.boards))}
	for i := range l.boards {
		info.Driver, info.CUDA = l.ids[i].driver, l.ids[i].cuda
		info.GPUs[l.boards[i].UUID] = l.ids[i].info
	}
	s.Inform(info)
}

// look lists GPUs and instances, and connects if necessary.
func (s *Source) look() local.Seen {
	now := s.deps.Clock.Now()
	if err := s.refresh(now); err != nil {
		return local.Seen{Nothing: true, Err: err}
	}
	return local.Seen{Reading: local.Reading{At: now, GPUs: s.session.layout.boards}}
}
