package collector

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

// stepClock is a fake clock whose wall time can be set apart from elapsed time,
// as a real one's is by an administrator.
type stepClock struct {
	*clock.Fake
	mu     sync.Mutex
	offset time.Duration
	at     map[time.Time]time.Time // what Now answered, to elapsed time
}

func newStepClock(now time.Time) *stepClock {
	return &stepClock{Fake: clock.NewFake(now), at: map[time.Time]time.Time{}}
}

func (c *stepClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Fake.Now()
	c.at[now.Add(c.offset)] = now
	return now.Add(c.offset)
}

func (c *stepClock) Since(t time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Fake.Now().Sub(c.at[t])
}

func (c *stepClock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
}

// live runs Live until the test ends or stop is called.
func live(t *testing.T, b *bench) (advance func(time.Duration), stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(testContext(t))
	done := make(chan error, 1)
	go func() { done <- b.Live(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("live ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return func(d time.Duration) {
		t.Helper()
		for ; d > 0; d -= look {
			advanceOnce(ctx, t, b.clk, min(d, look))
		}
	}, stop
}

// advanceOnce moves the clock when the loop waits, and returns when it waits
// again.
func advanceOnce(ctx context.Context, t *testing.T, clk *clock.Fake, d time.Duration) {
	t.Helper()
	if err := clk.BlockUntil(ctx, 1); err != nil {
		t.Fatal(err)
	}
	clk.Advance(d)
	if err := clk.BlockUntil(ctx, 1); err != nil {
		t.Fatal(err)
	}
}

// slotSeen is what a test looks at in a batch.
type slotSeen struct {
	Start    string
	Node     string
	Seq      uint64
	Observed [][2]int64
}

func seen(batches []*wire.Batch) (out []slotSeen) {
	for _, b := range batches {
		s := slotSeen{Start: time.UnixMilli(b.SlotStartMs).UTC().Format("15:04:05"), Node: b.Node, Seq: b.Seq}
		for _, o := range b.Observed {
			s.Observed = append(s.Observed, [2]int64{o.FromMs, o.ToMs})
		}
		out = append(out, s)
	}
	return out
}

func TestLiveIsAlignedAndPartialAtFirst(t *testing.T) {
	b := newBench(t, start.Add(3200*time.Millisecond), nil, newMemSpool(), "n1", "n2")
	advance, stop := live(t, b)
	advance(6800*time.Millisecond + 20*time.Second)
	stop()
	got := b.spool.batches(t)
	diff(t, []slotSeen{
		{"10:00:00", "n1", 0, [][2]int64{{3200, 10000}}},
		{"10:00:00", "n2", 1, [][2]int64{{3200, 10000}}},
		{"10:00:10", "n1", 2, nil},
		{"10:00:10", "n2", 3, nil},
		{"10:00:20", "n1", 4, nil},
		{"10:00:20", "n2", 5, nil},
	}, seen(got))
	for _, batch := range got {
		if batch.Collector != "col-1" || batch.BootMs != start.UnixMilli()+3200 || batch.Predecessor != nil {
			t.Errorf("identity %q, boot %d, predecessor %v", batch.Collector, batch.BootMs, batch.Predecessor)
		}
		diff(t, &wire.Counters{Sampled: batch.Seq + 1, Spooled: batch.Seq + 1}, batch.Counters)
	}
}

func TestRestartNamesItsPredecessorAndRepeatsNoSlot(t *testing.T) {
	sp := newMemSpool()
	first := newBench(t, start, nil, sp, "n1")
	advance, stop := live(t, first)
	advance(20 * time.Second)
	stop()
	// The clock stands in a slot that was emitted, and before the last boot.
	second := newBench(t, start.Add(-time.Second), nil, sp, "n1")
	advance, stop = live(t, second)
	advance(31 * time.Second)
	stop()
	got := sp.batches(t)
	diff(t, []slotSeen{
		{"10:00:00", "n1", 0, nil}, {"10:00:10", "n1", 1, nil}, {"10:00:20", "n1", 0, nil},
	}, seen(got))
	if n := len(second.source.reads); n != 1 {
		t.Errorf("the second boot read %d slots, want the new one alone", n)
	}
	diff(t, &wire.Predecessor{BootMs: start.UnixMilli(), LastSeq: 1}, got[2].Predecessor)
	if got[2].BootMs != start.UnixMilli()+1 {
		t.Errorf("boot_ms %d, want one more than the boot before, %d", got[2].BootMs, start.UnixMilli()+1)
	}
}

func TestWallClockStepsCutTheSlot(t *testing.T) {
	for _, c := range []struct {
		name string
		step time.Duration
		then time.Duration
		want []slotSeen
	}{
		{"forward over slots", 47 * time.Second, 19 * time.Second, []slotSeen{
			{"10:00:00", "n1", 0, nil},
			{"10:00:10", "n1", 1, [][2]int64{{0, 4000}}},
			{"10:01:00", "n1", 2, [][2]int64{{2000, 10000}}},
			{"10:01:10", "n1", 3, nil},
		}},
		{"forward in the slot", 3 * time.Second, 13 * time.Second, []slotSeen{
			{"10:00:00", "n1", 0, nil}, {"10:00:10", "n1", 1, [][2]int64{{0, 4000}}}, {"10:00:20", "n1", 2, nil},
		}},
		{"back over slots", -12 * time.Second, 28 * time.Second, []slotSeen{
			{"10:00:00", "n1", 0, nil}, {"10:00:10", "n1", 1, [][2]int64{{0, 4000}}}, {"10:00:20", "n1", 2, nil},
		}},
		{"small steps do not count", 400 * time.Millisecond, 6 * time.Second, []slotSeen{
			{"10:00:00", "n1", 0, nil}, {"10:00:10", "n1", 1, nil},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			clk := newStepClock(start)
			b := newBench(t, start, clk, newMemSpool(), "n1")
			b.clk = clk.Fake
			advance, stop := live(t, b)
			advance(14 * time.Second)
			clk.step(c.step)
			advance(c.then)
			stop()
			diff(t, c.want, seen(b.spool.batches(t)))
			want := 1.0
			if len(c.want) == 2 {
				want = 0
			}
			if n := b.count(t, "wall_clock_steps_total", ""); n != want {
				t.Errorf("steps counted %v, want %v", n, want)
			}
		})
	}
}

func TestSlotsMissedWhenHeldUp(t *testing.T) {
	b := newBench(t, start, nil, newMemSpool(), "n1")
	advance, stop := live(t, b)
	advance(9 * time.Second)
	b.source.held = 35 * time.Second // the reading of the first slot
	advance(time.Second)
	b.source.held = 0
	advance(15 * time.Second)
	stop()
	got := b.spool.batches(t)
	diff(t, []slotSeen{
		{"10:00:00", "n1", 0, nil}, {"10:00:40", "n1", 1, [][2]int64{{5000, 10000}}}, {"10:00:50", "n1", 2, nil},
	}, seen(got))
	diff(t, &wire.Counters{Sampled: 6, Spooled: 3, Dropped: map[string]uint64{"missed": 3}}, got[2].Counters)
	b.checkC1(t)
	if n := b.count(t, "slots_missed_total", ""); n != 3 {
		t.Errorf("slots missed %v, want 3", n)
	}
}

func TestLiveRetriesThenDropsWhenTheDiskIsFull(t *testing.T) {
	sp := newMemSpool()
	b := newBench(t, start, nil, sp, "n1")
	var full time.Time // until when
	sp.fail = func() error {
		if b.clk.Now().Before(full) {
			return errors.New("no space left on device")
		}
		return nil
	}
	full = start.Add(13 * time.Second) // the first slot gets in late
	advance, stop := live(t, b)
	advanceOnce(testContext(t), t, b.clk, 10*time.Second)
	for b.clk.Now().Before(start.Add(20 * time.Second)) {
		advanceOnce(testContext(t), t, b.clk, 100*time.Millisecond)
	}
	full = start.Add(41 * time.Second) // the slots of :20 and :30 do not
	for b.clk.Now().Before(start.Add(50 * time.Second)) {
		advanceOnce(testContext(t), t, b.clk, 100*time.Millisecond)
	}
	advance(time.Second)
	stop()
	got := sp.batches(t)
	diff(t, []slotSeen{
		{"10:00:00", "n1", 0, nil}, {"10:00:10", "n1", 1, nil}, {"10:00:30", "n1", 2, nil}, {"10:00:40", "n1", 3, nil},
	}, seen(got))
	diff(t, &wire.Counters{Sampled: 5, Spooled: 4, Dropped: map[string]uint64{"spool": 1}}, got[3].Counters)
	if n := b.count(t, "batches_dropped_total", droppedSpool); n != 1 {
		t.Errorf("dropped %v, want 1", n)
	}
	b.checkC1(t)
}

func TestSourceErrorsKeepWhatWasRead(t *testing.T) {
	b := newBench(t, start, nil, newMemSpool(), "n1")
	b.source.err = errors.New("node n2: connection refused")
	advance, stop := live(t, b)
	advance(10 * time.Second)
	stop()
	diff(t, []slotSeen{{"10:00:00", "n1", 0, nil}}, seen(b.spool.batches(t)))
	if n := b.count(t, "read_errors_total", ""); n != 1 {
		t.Errorf("read errors %v, want 1", n)
	}
}

func TestContradictoryBatchesAreDroppedAndCounted(t *testing.T) {
	b := newBench(t, start, nil, newMemSpool(), "good", "elsewhere", "broken", "long")
	b.source.edit = func(batch *wire.Batch) {
		switch batch.Node {
		case "elsewhere":
			batch.Cluster = "d"
		case "broken":
			batch.Gpus = []*wire.Gpu{{}}
		case "long":
			batch.SlotMs = 60_000
		}
	}
	advance, stop := live(t, b)
	advance(10 * time.Second)
	stop()
	got := b.spool.batches(t)
	diff(t, []slotSeen{{"10:00:00", "good", 0, nil}}, seen(got))
	diff(t, &wire.Counters{Sampled: 4, Spooled: 1, Dropped: map[string]uint64{"invalid": 3}}, got[0].Counters)
	b.checkC1(t)
}

// TestStoppedWhileTheDiskIsFull: what was cut and can't be tried again has a
// reason.
func TestStoppedWhileTheDiskIsFull(t *testing.T) {
	b := newBench(t, start, nil, newMemSpool(), "n1", "n2")
	b.spool.fail = func() error { return errors.New("no space left on device") }
	advance, stop := live(t, b)
	advance(10 * time.Second)
	stop()
	if n := b.count(t, "batches_dropped_total", droppedStopped); n != 2 {
		t.Errorf("dropped %v for the stop, want 2", n)
	}
	b.checkC1(t)
}

// TestAStopBetweenReadingAndSpooling drops with a reason too.
func TestAStopBetweenReadingAndSpooling(t *testing.T) {
	b := newBench(t, start, nil, newMemSpool(), "n1")
	ctx, cancel := context.WithCancel(testContext(t))
	b.spool.fail = func() error { cancel(); return ctx.Err() }
	b.clk.Set(start.Add(10 * time.Second))
	b.emit(ctx, next(start, time.Time{}, b.cfg.Slot))
	if n := b.count(t, "batches_dropped_total", droppedStopped); n != 1 {
		t.Errorf("dropped %v for the stop, want 1", n)
	}
	b.checkC1(t)
}

// TestABatchThatVanishesShowsInC1 breaks the loop on purpose: a batch that is
// cut and then forgotten is in no reason, and every batch after it says so.
func TestABatchThatVanishesShowsInC1(t *testing.T) {
	b := newBench(t, start, nil, newMemSpool(), "n1", "n2", "n3")
	advance, stop := live(t, b)
	advance(10 * time.Second)
	stop()
	b.checkC1(t)
	vanishing := b.read(testContext(t), source.At(start.Add(10*time.Second), b.cfg.Slot))
	b.cut(len(vanishing))
	fill(t, b, 3)
	for i, batch := range b.spool.batches(t) {
		n := batch.Counters
		if off := n.Sampled - n.Spooled; off != 0 && i < 3 || off != 3 && i >= 3 {
			t.Errorf("batch %d: %d sampled, %d spooled; want the 3 that vanished to be missing after batch 2", i, n.Sampled, n.Spooled)
		}
	}
}

func TestRunReadsAndPublishesUntilItsContextEnds(t *testing.T) {
	b := newBench(t, start, nil, newMemSpool(), "n1")
	b.producer.sent = make(chan int, 10)
	ctx, cancel := context.WithCancel(testContext(t))
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	for range 20 {
		advanceOnce(ctx, t, b.clk, look)
	}
	for sent := range b.producer.sent {
		if sent == 2 {
			break
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("run ended with %v", err)
	}
}

func TestRunEndsWhenTheSpoolHoldsWhatIsNoBatch(t *testing.T) {
	sp := newMemSpool()
	if _, err := sp.Append(testContext(t), [][]byte{{0xff}}); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, start, nil, sp, "n1")
	err := b.Run(testContext(t))
	if err == nil || !strings.Contains(err.Error(), "record 1 of the spool: read identity of batch of 1 bytes") {
		t.Errorf("error %v, want one that names the record and its length", err)
	}
}
