package clock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var start = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)

func received(c <-chan time.Time) (at time.Time, ok bool) {
	select {
	case at = <-c:
		return at, true
	default:
		return at, false
	}
}

func TestFakeTimerFiresOnceAtItsDeadline(t *testing.T) {
	fake := NewFake(start)
	timer := fake.NewTimer(10 * time.Second)
	fake.Advance(9 * time.Second)
	if at, ok := received(timer.C()); ok {
		t.Fatalf("timer fired early, at %s", at)
	}
	fake.Advance(time.Minute)
	at, ok := received(timer.C())
	if !ok || !at.Equal(start.Add(10*time.Second)) {
		t.Errorf("timer: got %s, %t; want its deadline", at, ok)
	}
	fake.Advance(time.Hour)
	if at, ok := received(timer.C()); ok {
		t.Errorf("timer fired twice, at %s", at)
	}
	if got, want := fake.Since(start), time.Hour+time.Minute+9*time.Second; got != want {
		t.Errorf("Since: got %s, want %s", got, want)
	}
}

func TestFakeTimerStopAndReset(t *testing.T) {
	fake := NewFake(start)
	timer := fake.NewTimer(time.Second)
	if !timer.Stop() {
		t.Error("Stop of a running timer: got false")
	}
	if timer.Stop() {
		t.Error("Stop of a stopped timer: got true")
	}
	fake.Advance(time.Minute)
	if _, ok := received(timer.C()); ok {
		t.Error("a stopped timer fired")
	}
	timer.Reset(time.Second)
	fake.Advance(time.Second) // fires, nobody takes it
	if timer.Reset(time.Second) {
		t.Error("Reset of a fired timer: got true")
	}
	if at, ok := received(timer.C()); ok {
		t.Errorf("Reset left a stale value: %s", at)
	}
	timer.Reset(0)
	if _, ok := received(timer.C()); !ok {
		t.Error("a timer of zero did not fire at once")
	}
}

func TestFakeTickerDropsWhatNobodyTook(t *testing.T) {
	fake := NewFake(start)
	ticker := fake.NewTicker(10 * time.Second)
	var got []time.Duration
	for range 3 {
		fake.Advance(10 * time.Second)
		at, _ := received(ticker.C())
		got = append(got, at.Sub(start))
	}
	fake.Advance(35 * time.Second)
	at, _ := received(ticker.C())
	got = append(got, at.Sub(start))
	want := []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second, 40 * time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ticks (-want +got):\n%s", diff)
	}
	ticker.Reset(time.Minute)
	fake.Advance(59 * time.Second)
	if _, ok := received(ticker.C()); ok {
		t.Error("the old period ticked after Reset")
	}
	ticker.Stop()
	fake.Advance(time.Hour)
	if _, ok := received(ticker.C()); ok {
		t.Error("a stopped ticker ticked")
	}
}

func TestFakeFiresInOrderOfDeadline(t *testing.T) {
	fake := NewFake(start)
	late := fake.NewTimer(2 * time.Second).(*fakeTimer)
	early := fake.NewTimer(time.Second).(*fakeTimer)
	twin := fake.NewTimer(time.Second).(*fakeTimer)
	want := []*fakeTimer{early, twin, late}
	for i, timer := range want {
		if fake.waiters[i] != timer {
			t.Errorf("waiter %d: got deadline %s, want %s", i, fake.waiters[i].at, timer.at)
		}
	}
}

func TestSleepEndsWithTimeOrContext(t *testing.T) {
	fake := NewFake(start)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Sleep(ctx, fake, time.Minute) }()
	if err := fake.BlockUntil(ctx, 1); err != nil {
		t.Fatalf("block until a sleeper waits: %v", err)
	}
	fake.Advance(time.Minute)
	if err := <-done; err != nil {
		t.Errorf("sleep to its end: %v", err)
	}
	go func() { done <- Sleep(ctx, fake, time.Minute) }()
	if err := fake.BlockUntil(ctx, 1); err != nil {
		t.Fatalf("block until a sleeper waits: %v", err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("sleep with its context cancelled: got %v", err)
	}
	if err := fake.BlockUntil(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("block with nobody waiting: got %v", err)
	}
}

func TestRealClockMoves(t *testing.T) {
	c := Real()
	before := c.Now()
	timer, ticker := c.NewTimer(time.Millisecond), c.NewTicker(time.Millisecond)
	<-timer.C()
	<-ticker.C()
	ticker.Stop()
	if got := c.Since(before); got < time.Millisecond {
		t.Errorf("Since after a timer of 1ms: got %s", got)
	}
}
