package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/clock"
)

type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// draining works until its context ends and says so when it has drained.
func (j *journal) draining(name string, err error) func(context.Context) error {
	return func(ctx context.Context) error {
		<-ctx.Done()
		j.add(name)
		return err
	}
}

func newGroup(t *testing.T, c clock.Clock) *Group {
	return New(t.Context(), Options{Clock: c, Log: slog.New(slog.DiscardHandler), StopTimeout: time.Minute})
}

func TestGroupStopsInReverseOrder(t *testing.T) {
	var j journal
	g := newGroup(t, clock.Real())
	g.Go("engine", j.draining("engine", nil))
	g.OnStop("lock", func() error { j.add("lock"); return nil })
	g.Go("ingest", j.draining("ingest", context.Canceled))
	g.Go("collector", j.draining("collector", nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Wait(ctx); err != nil {
		t.Errorf("wait: got %v, want nil", err)
	}
	if diff := cmp.Diff([]string{"collector", "ingest", "lock", "engine"}, j.lines); diff != "" {
		t.Errorf("order of stopping (-want +got):\n%s", diff)
	}
}

func TestGroupFirstErrorWins(t *testing.T) {
	var j journal
	broken := errors.New("disk full")
	g := newGroup(t, clock.Real())
	g.Go("engine", j.draining("engine", errors.New("later")))
	g.Go("spool", func(context.Context) error { return broken })
	err := g.Wait(t.Context())
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "run spool") {
		t.Errorf("wait: got %v, want the spool's error", err)
	}
	if diff := cmp.Diff([]string{"engine"}, j.lines); diff != "" {
		t.Errorf("drained (-want +got):\n%s", diff)
	}
}

func TestGroupTellsWhatFailedWhileStopping(t *testing.T) {
	var j journal
	broken := errors.New("flush: disk full")
	g := newGroup(t, clock.Real())
	g.Go("ingest", j.draining("ingest", broken))
	if err := g.Stop(); !errors.Is(err, broken) {
		t.Errorf("stop: got %v, want %v", err, broken)
	}
}

func TestGroupServiceMayNotEndByItself(t *testing.T) {
	g := newGroup(t, clock.Real())
	g.Go("ledger", func(context.Context) error { return nil })
	if err := g.Wait(t.Context()); err == nil || err.Error() != "run ledger: ended by itself" {
		t.Errorf("wait: got %v", err)
	}
}

func TestGroupGoesOnWithoutAServiceThatHangs(t *testing.T) {
	var j journal
	fake := clock.NewFake(time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC))
	g := newGroup(t, fake)
	release := make(chan struct{})
	defer close(release)
	g.Go("engine", j.draining("engine", nil))
	g.Go("hung", func(context.Context) error { <-release; return nil })
	done := make(chan error, 1)
	go func() { done <- g.Stop() }()
	if err := fake.BlockUntil(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	fake.Advance(time.Minute)
	if err := <-done; err == nil || err.Error() != "stop hung: still running after 1m0s" {
		t.Errorf("stop: got %v", err)
	}
	if diff := cmp.Diff([]string{"engine"}, j.lines); diff != "" {
		t.Errorf("drained (-want +got):\n%s", diff)
	}
}
