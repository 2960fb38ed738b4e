package collector

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/wire"
)

// follow runs Follow until stop is called.
func follow(t *testing.T, b *bench, from time.Time) (advance func(time.Duration), stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(testContext(t))
	done := make(chan error, 1)
	go func() { done <- b.Follow(ctx, from) }()
	advance = func(d time.Duration) {
		t.Helper()
		for ; d > 0; d -= look {
			advanceOnce(ctx, t, b.clk, min(d, look))
		}
	}
	return advance, func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("follow ended with %v", err)
		}
	}
}

// wantWholeSlots holds batches of one node against every slot of [from, to).
func wantWholeSlots(t *testing.T, batches []*wire.Batch, from, to time.Time) {
	t.Helper()
	var want, got []string
	for at := from; at.Before(to); at = at.Add(10 * time.Second) {
		want = append(want, at.Format(time.RFC3339))
	}
	for _, b := range batches {
		at := time.UnixMilli(b.SlotStartMs).UTC().Format(time.RFC3339)
		if len(b.Observed) > 0 || b.Unobserved {
			at += " in part"
		}
		got = append(got, at)
	}
	diff(t, want, got)
}

// A month is backfilled while time goes by, then the collector follows, is
// stopped in the middle of a slot, started again minutes later and stopped
// once more: no slot is partial, none is missing, none comes twice.
func TestFollowLeavesNoHoleAfterABackfillOrARestart(t *testing.T) {
	month := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC) // where the backfilled month ends
	sp := newMemSpool()
	first := newBench(t, month.Add(95*time.Second), nil, sp, "n1")
	if err := first.Backfill(testContext(t), month.Add(-time.Minute), month, nil); err != nil {
		t.Fatal(err)
	}
	first.clk.Advance(32500 * time.Millisecond) // as long as a backfill may take
	advance, stop := follow(t, first, month)
	advance(47 * time.Second)
	stop()
	second := newBench(t, month.Add(10*time.Minute+3200*time.Millisecond), nil, sp, "n1")
	advance, stop = follow(t, second, month)
	advance(16800 * time.Millisecond)
	stop()
	got := sp.batches(t)
	wantWholeSlots(t, got, month.Add(-time.Minute), month.Add(10*time.Minute+20*time.Second))
	if boots := slices.Compact(bootsOf(got)); len(boots) != 2 {
		t.Errorf("boots %v, want two", boots)
	}
}

func bootsOf(batches []*wire.Batch) (boots []int64) {
	for _, b := range batches {
		boots = append(boots, b.BootMs)
	}
	return boots
}

// A process that was held up, or a wall clock that was stepped forward, is
// caught up with; one stepped back is waited for.
func TestFollowReadsWhatItWasHeldUpFor(t *testing.T) {
	b := newBench(t, start, nil, newMemSpool(), "n1")
	advance, stop := follow(t, b, start)
	advance(14 * time.Second)
	advanceOnce(testContext(t), t, b.clk, 3*time.Minute)
	advance(10 * time.Second)
	advanceOnce(testContext(t), t, b.clk, -time.Minute)
	for range 70 {
		advanceOnce(testContext(t), t, b.clk, look)
	}
	stop()
	wantWholeSlots(t, b.spool.batches(t), start, b.clk.Now().Truncate(10*time.Second))
}

func TestFollowRefusesAnUnalignedStart(t *testing.T) {
	b := newBench(t, start.Add(time.Minute), nil, newMemSpool(), "n1")
	err := b.Follow(testContext(t), start.Add(time.Second))
	if err == nil || !strings.Contains(err.Error(), "multiples of the slot of 10s") {
		t.Errorf("error %v, want one that names the slot", err)
	}
}
