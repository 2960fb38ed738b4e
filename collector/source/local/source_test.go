package local

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

// library answers with one GPU, after hang where that is set.
type library struct {
	clk             *clock.Fake
	hang            chan struct{} // closed: it answers at once
	seen            Seen
	calls           atomic.Int32
	looks, delivers int
	closed          bool
}

func (l *library) read(source.Slot) Seen {
	l.calls.Add(1)
	<-l.hang
	l.seen.Reading.At = l.clk.Now()
	return l.seen
}

func (l *library) look() Seen {
	l.looks++
	return l.read(source.Slot{})
}

func newSource(t *testing.T) (*Source, *library, *strings.Builder, func() float64) {
	t.Helper()
	clk := clock.NewFake(start.Add(slotLength))
	log := &strings.Builder{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	builder, err := New(DefaultConfig(), Deps{Cluster: "c", Node: "n", Clock: clk, Log: logger, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	l := &library{clk: clk, hang: make(chan struct{}), seen: Seen{Reading: Reading{Complete: true, GPUs: []GPU{{UUID: "GPU-1", Slices: 1}}}}}
	close(l.hang)
	blocked := prometheus.NewCounter(prometheus.CounterOpts{Name: "blocked_total"})
	s := NewSource(Library{
		Name: "lib", Read: l.read, Look: l.look, Deliver: func(*Reading) { l.delivers++ }, Close: func() { l.closed = true },
		Blocked: blocked,
	}, builder)
	return s, l, log, func() float64 { return testutil.ToFloat64(blocked) }
}

const slotLength = slotMS * time.Millisecond

var firstSlot = source.Slot{Start: start, Length: slotLength}

func TestSourceReads(t *testing.T) {
	s, l, _, _ := newSource(t)
	batches, err := s.Read(t.Context(), firstSlot)
	if err != nil || len(batches) != 1 || len(batches[0].Gpus) != 1 || l.delivers != 1 {
		t.Errorf("got %v, %v, delivered %d times; want a batch of a GPU, delivered once", batches, err, l.delivers)
	}
	l.seen.Err = errors.New("GPU 2 is left out")
	if batches, err = s.Read(t.Context(), firstSlot.Next()); len(batches) != 1 || !errors.Is(err, l.seen.Err) {
		t.Errorf("got %v, %v; want a batch and what is missing in it", batches, err)
	}
	l.seen.Nothing = true
	if batches, err = s.Read(t.Context(), firstSlot.Next().Next()); len(batches) != 0 || !errors.Is(err, l.seen.Err) || l.delivers != 2 {
		t.Errorf("got %v, %v; want no batch, and why", batches, err)
	}
	s.Close()
	if !l.closed {
		t.Error("the library is not closed")
	}
}

// TestLooks: one that fails makes the time around it unobserved, one that asked
// nobody doesn't.
func TestLooks(t *testing.T) {
	for name, c := range map[string]struct {
		seen  Seen
		blind bool
	}{
		"good":   {Seen{}, false},
		"idle":   {Seen{Idle: true}, false},
		"failed": {Seen{Err: errors.New("away")}, true},
	} {
		s, l, _, _ := newSource(t)
		if _, err := s.Read(t.Context(), firstSlot); err != nil {
			t.Fatal(err)
		}
		good := l.seen
		l.clk.Advance(time.Second)
		l.seen = c.seen
		s.Watch()
		l.clk.Advance(slotLength - time.Second)
		l.seen = good
		batches, err := s.Read(t.Context(), firstSlot.Next())
		if err != nil || (wire.ObservedMS(batches[0]) < slotLength.Milliseconds()) != c.blind || l.looks != 1 {
			t.Errorf("%s: %v, %v; want blind %v", name, batches, err, c.blind)
		}
	}
}

// TestLibraryThatHangs costs readings, and is not called beside the call that hangs.
func TestLibraryThatHangs(t *testing.T) {
	s, l, log, blocked := newSource(t)
	l.hang = make(chan struct{})
	for i := range 2 {
		read := make(chan error, 1)
		go func() {
			_, err := s.Read(t.Context(), firstSlot)
			read <- err
		}()
		if err := l.clk.BlockUntil(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		l.clk.Advance(slotLength * 4 / 5)
		if err := <-read; !errors.Is(err, ErrBlocked) {
			t.Errorf("reading %d: %v, want that the library has not answered", i, err)
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Read(canceled, firstSlot); !errors.Is(err, ErrBlocked) || !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v, want that the library has not answered, and the context's end", err)
	}
	closed := make(chan struct{})
	go func() { s.Close(); close(closed) }()
	if err := l.clk.BlockUntil(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	l.clk.Advance(lookBound)
	<-closed // it can't, and says so
	if !strings.Contains(log.String(), "was not closed") || l.closed {
		t.Errorf("the library was closed beside a call, or the log lacks it:\n%s", log)
	}
	if blocked() != 4 || l.calls.Load() != 1 || l.delivers != 0 {
		t.Errorf("%v calls were blocked, %d made, %d delivered; want 4, 1 and 0", blocked(), l.calls.Load(), l.delivers)
	}
	close(l.hang)
	if batches, err := s.Read(t.Context(), firstSlot.Next()); err != nil || len(batches) != 1 || l.delivers != 1 {
		t.Errorf("after it returned: %v, %v; want a batch", batches, err)
	}
}

func TestInfoIsACopy(t *testing.T) {
	s, _, _, _ := newSource(t)
	if got := s.Info(); got.Driver != "" {
		t.Errorf("before a reading: %+v", got)
	}
	s.Inform(source.Info{Driver: "570", GPUs: map[string]source.GPUInfo{"GPU-1": {Serial: "7"}}})
	delete(s.Info().GPUs, "GPU-1")
	if got := s.Info(); got.Driver != "570" || got.GPUs["GPU-1"].Serial != "7" {
		t.Errorf("got %+v", got)
	}
}
