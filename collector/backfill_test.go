package collector

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

func TestBackfillGroupsSlots(t *testing.T) {
	b := newBench(t, start, nil, newMemSpool(), "n1", "n2")
	var progress [][2]int
	err := b.Backfill(testContext(t), start, start.Add(120*b.cfg.Slot), func(done, total int) {
		progress = append(progress, [2]int{done, total})
	})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, [][2]int{{0, 120}, {50, 120}, {100, 120}, {120, 120}}, progress)
	if b.spool.appends != 3 {
		t.Errorf("%d appends, want one per group: 3", b.spool.appends)
	}
	got := b.spool.batches(t)
	if len(got) != 240 {
		t.Fatalf("%d batches, want 240", len(got))
	}
	for i, batch := range got {
		at := start.Add(time.Duration(i/2) * b.cfg.Slot).UnixMilli()
		if batch.Seq != uint64(i) || batch.SlotStartMs != at || batch.Counters.Sampled != uint64(i+1) || batch.Counters.Spooled != uint64(i+1) {
			t.Fatalf("batch %d: seq %d, slot %d, counters %v", i, batch.Seq, batch.SlotStartMs, batch.Counters)
		}
	}
}

func TestBackfillLosesNothingToAFailingDisk(t *testing.T) {
	b := newBench(t, start, nil, newMemSpool(), "n1")
	failures := 5
	b.spool.fail = func() error {
		if failures--; failures >= 0 {
			return errors.New("no space left on device")
		}
		return nil
	}
	done := make(chan error, 1)
	ctx := testContext(t)
	go func() { done <- b.Backfill(ctx, start, start.Add(3*b.cfg.Slot), nil) }()
	for range 5 {
		if err := b.clk.BlockUntil(ctx, 1); err != nil {
			t.Fatal(err)
		}
		b.clk.Advance(b.cfg.RetryMax)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	got := b.spool.batches(t)
	diff(t, []slotSeen{{"10:00:00", "n1", 0, nil}, {"10:00:10", "n1", 1, nil}, {"10:00:20", "n1", 2, nil}}, seen(got))
	diff(t, &wire.Counters{Sampled: 3, Spooled: 3}, got[2].Counters)
	if n := b.count(t, "spool_append_errors_total", ""); n != 5 {
		t.Errorf("append errors %v, want 5", n)
	}
}

func TestBackfillEndsWithItsContext(t *testing.T) {
	b := newBench(t, start, nil, newMemSpool(), "n1")
	b.spool.fail = func() error { return errors.New("no space left on device") }
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	if err := b.Backfill(ctx, start, start.Add(3*b.cfg.Slot), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
}

// TestAStoppedBackfillSaysWhatItGaveUp: of this boot, batches that were read and
// not spooled are dropped; the next boot reads them again.
func TestAStoppedBackfillSaysWhatItGaveUp(t *testing.T) {
	for name, stop := range map[string]func(*bench, context.CancelFunc){
		"in an append": func(b *bench, cancel context.CancelFunc) {
			b.spool.fail = func() error { cancel(); return errors.New("no space left on device") }
		},
		"in a reading": func(b *bench, cancel context.CancelFunc) {
			slots := 0
			b.source.edit = func(*wire.Batch) {
				if slots++; slots == 4 {
					cancel()
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, start, nil, newMemSpool(), "n1")
			ctx, cancel := context.WithCancel(testContext(t))
			stop(b, cancel)
			if err := b.Backfill(ctx, start, start.Add(4*b.cfg.Slot), nil); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want canceled", err)
			}
			if n := b.count(t, "batches_dropped_total", droppedStopped); n < 3 {
				t.Errorf("dropped %v for the stop, want all that was read", n)
			}
			b.checkC1(t)
		})
	}
}

func TestBackfillRefusesUnalignedTimes(t *testing.T) {
	b := newBench(t, start, nil, newMemSpool(), "n1")
	for _, c := range []struct{ from, to time.Duration }{{time.Second, time.Minute}, {0, 15 * time.Second}, {time.Minute, 0}} {
		err := b.Backfill(testContext(t), start.Add(c.from), start.Add(c.to), nil)
		if err == nil || !strings.Contains(err.Error(), "multiples of the slot of 10s") {
			t.Errorf("from %s to %s: error %v", c.from, c.to, err)
		}
	}
}

// TestResumeOnARealSpool stops a backfill, in the middle of a slot as a crash
// may, and goes on with the next boot.
func TestResumeOnARealSpool(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	var all []*wire.Batch
	open := func(nodes ...string) (*Collector, *spool.Spool) {
		t.Helper()
		sp, err := spool.Open(dir, spool.Options{Policy: spool.Block, Describe: Describe})
		if err != nil {
			t.Fatal(err)
		}
		cfg := DefaultConfig()
		cfg.Cluster, cfg.Collector, cfg.SpoolDir = "c", "col-1", dir
		c, err := New(cfg, Deps{
			Source: &fakeSource{nodes: nodes}, Producer: &fakeProducer{}, Spool: sp,
			Clock: clock.NewFake(start), Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		})
		if err != nil {
			t.Fatal(err)
		}
		return c, sp
	}
	drain := func(sp *spool.Spool, n int) {
		t.Helper()
		for range n {
			records, err := sp.Next(testContext(t), 1)
			if err != nil {
				t.Fatal(err)
			}
			batch, _, err := wire.Decode(records[0].Data)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, batch)
			if err := sp.Ack(records[0].ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	c, sp := open("n1", "n2")
	if err := c.Backfill(testContext(t), start, start.Add(2*c.cfg.Slot), nil); err != nil {
		t.Fatal(err)
	}
	c.deps.Source = &fakeSource{nodes: []string{"n1"}} // the third slot is spooled for one node only
	if err := c.Backfill(testContext(t), start, start.Add(3*c.cfg.Slot), nil); err != nil {
		t.Fatal(err)
	}
	drain(sp, 5)
	if err := sp.Close(); err != nil {
		t.Fatal(err)
	}
	c, sp = open("n1", "n2")
	defer sp.Close()
	if err := c.Backfill(testContext(t), start, start.Add(4*c.cfg.Slot), nil); err != nil {
		t.Fatal(err)
	}
	drain(sp, 3)
	diff(t, []slotSeen{
		{"10:00:00", "n1", 0, nil},
		{"10:00:00", "n2", 1, nil},
		{"10:00:10", "n1", 2, nil},
		{"10:00:10", "n2", 3, nil},
		{"10:00:20", "n1", 4, nil},
		{"10:00:20", "n2", 0, nil},
		{"10:00:30", "n1", 1, nil},
		{"10:00:30", "n2", 2, nil},
	}, seen(all))
	diff(t, &wire.Predecessor{BootMs: start.UnixMilli(), LastSeq: 4}, all[5].Predecessor)
	if all[5].BootMs != start.UnixMilli()+1 {
		t.Errorf("boot_ms %d, want %d", all[5].BootMs, start.UnixMilli()+1)
	}
}
