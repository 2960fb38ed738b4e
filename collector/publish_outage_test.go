package collector

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/wire"
)

// gate is a broker that is away until it opens: a produce call meanwhile waits,
// as the real producer does, or fails at once.
type gate struct {
	fails bool

	mu    sync.Mutex
	open  chan struct{}
	calls []int // messages per call that was answered
	got   []broker.Message
}

func newGate(fails bool) *gate { return &gate{fails: fails, open: make(chan struct{})} }

func (g *gate) Produce(ctx context.Context, messages []broker.Message) error {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
	default:
		if g.fails {
			return errors.New("connection refused")
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-open:
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls, g.got = append(g.calls, len(messages)), append(g.got, messages...)
	return nil
}

// batches decodes what has arrived, in order.
func (g *gate) batches(t *testing.T) (out []*wire.Batch) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.got {
		b, _, err := wire.Decode(m.Value)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

// boot runs a collector, live and publishing, on a spool on disk.
type boot struct {
	*bench
	spool    *spool.Spool
	capBytes int64
	waiters  int // on the clock, while the broker is away
	stop     func()
}

const (
	outageSlot = time.Second
	// slotsPerCap is how many slots of four nodes fill the spool, nearly.
	slotsPerCap = 128
)

func startBoot(t *testing.T, dir string, now time.Time, g *gate, capBytes int64) *boot {
	t.Helper()
	sp, err := spool.Open(dir, spool.Options{MaxBytes: capBytes, Describe: Describe})
	if err != nil {
		t.Fatal(err)
	}
	b := &boot{bench: newRealBench(t, now, sp, "n1", "n2", "n3", "n4"), spool: sp, capBytes: capBytes, waiters: 1}
	if g.fails {
		b.waiters = 2 // the publisher's back-off is the other one
	}
	b.cfg.Slot, b.deps.Producer, b.source.reads = outageSlot, g, nil
	const padBytes = 1000
	pad := slices.Repeat([]*wire.Event{{Kind: "xid", Detail: strings.Repeat("x", padBytes)}}, int(capBytes/slotsPerCap/4/padBytes))
	b.source.edit = func(batch *wire.Batch) { batch.Events = pad }
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-done, sp.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(b.stop)
	return b
}

// pass lets slots go by and looks at the folder's size after each.
func (b *boot) pass(t *testing.T, dir string, slots, waiters int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range slots {
		if err := b.clk.BlockUntil(ctx, 1); err != nil {
			t.Fatal(err)
		}
		b.clk.Advance(outageSlot)
		if err := b.clk.BlockUntil(ctx, waiters); err != nil {
			t.Fatal(err)
		}
		if used, most := duBytes(t, dir), b.capBytes+64<<10; used > most {
			t.Fatalf("the folder has %d bytes, want at most %d", used, most)
		}
	}
}

// duBytes is what the folder's files take on disk, by size or by blocks, whichever
// is more.
func duBytes(t *testing.T, dir string) (used int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		var st syscall.Stat_t
		if err := syscall.Stat(filepath.Join(dir, e.Name()), &st); errors.Is(err, os.ErrNotExist) {
			continue // acknowledged meanwhile
		} else if err != nil {
			t.Fatal(err)
		}
		used += max(st.Size, st.Blocks*512)
	}
	return used
}

// bootSeq names a batch.
type bootSeq struct {
	BootMS int64
	Seq    uint64
}

// TestALongOutageIsToldExactly appends 2.5 times what the spool holds while the
// broker is away, through a restart in the middle: in the end each number that
// was given has arrived once, or was announced, and none is both.
func TestALongOutageIsToldExactly(t *testing.T) {
	for name, c := range map[string]struct {
		fails    bool
		capBytes int64
	}{"produce waits": {false, 64 << 20}, "produce fails": {true, 4 << 20}} {
		t.Run(name, func(t *testing.T) {
			dir, g := t.TempDir(), newGate(c.fails)
			first := startBoot(t, dir, start, g, c.capBytes)
			first.pass(t, dir, 160, first.waiters) // over the cap
			first.stop()
			second := startBoot(t, dir, first.clk.Now(), g, c.capBytes)
			second.pass(t, dir, 160, second.waiters)
			if st := second.spool.Stats(); st.Dropped < 750 || st.Cursor != 0 {
				t.Fatalf("%d dropped, %d acknowledged, want more than half of 1280, and none", st.Dropped, st.Cursor)
			}
			close(g.open)
			if c.fails {
				second.clk.Advance(DefaultConfig().RetryMax) // a slot or more is missed, and counted
			}
			drained := func() bool { return second.spool.Stats().Records == 0 }
			await(t, drained)
			second.pass(t, dir, 2, 1) // the last drops are announced by what comes next
			await(t, drained)
			if left := second.spool.Stats().DroppedRanges; len(left) > 0 {
				await(t, func() bool { return len(second.spool.Stats().DroppedRanges) == 0 })
			}
			second.stop()
			checkTold(t, g.batches(t), map[int64]uint64{
				first.identity.bootMS: first.identity.nextSeq, second.identity.bootMS: second.identity.nextSeq,
			})
		})
	}
}

// checkTold: of each boot's numbers, given up to the one named, each has arrived
// or was announced.
func checkTold(t *testing.T, arrived []*wire.Batch, given map[int64]uint64) {
	t.Helper()
	want, got := map[bootSeq]int{}, map[bootSeq]int{}
	for boot, next := range given {
		for seq := range next {
			want[bootSeq{boot, seq}] = 1
		}
	}
	gaps := map[bootSeq]bool{}
	var last bootSeq
	for i, b := range arrived {
		at := bootSeq{b.BootMs, b.Seq}
		if got[at]++; i > 0 && (at.BootMS < last.BootMS || at.BootMS == last.BootMS && at.Seq <= last.Seq) {
			t.Errorf("%v arrives after %v", at, last)
		}
		last = at
		for _, gap := range b.Gaps {
			for seq := gap.FromSeq; seq <= gap.ToSeq; seq++ {
				gaps[bootSeq{gap.BootMs, seq}] = true // told again where the teller was lost
			}
		}
	}
	for at := range gaps {
		got[at]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("arrived or announced (-want +got):\n%s", diff)
	}
	own := slices.DeleteFunc(arrived, func(b *wire.Batch) bool { return b.BootMs != last.BootMS })
	told, n := uint64(0), own[len(own)-1].Counters
	for at := range gaps {
		if at.BootMS == last.BootMS {
			told++
		}
	}
	if n.SpoolDropped != told || n.Spooled != last.Seq+1 {
		t.Errorf("the last batch counts %d spooled and %d dropped, want %d and %d", n.Spooled, n.SpoolDropped, last.Seq+1, told)
	}
}

// TestABacklogDrainsInFullBatches and in order: no slower after an outage than
// the broker takes it.
func TestABacklogDrainsInFullBatches(t *testing.T) {
	sp := openSpool(t, t.TempDir())
	b, g := newRealBench(t, start, sp, "n1", "n2"), newGate(false)
	b.deps.Producer, b.source.reads = g, nil
	const slots = 5000
	fill(t, b, slots)
	close(g.open)
	ctx, cancel := context.WithCancel(testContext(t))
	done := make(chan error, 1)
	go func() { done <- b.Publish(ctx) }()
	await(t, func() bool { return sp.Stats().Records == 0 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for i, batch := range g.batches(t) {
		if batch.Seq != uint64(i) {
			t.Fatalf("message %d has seq %d", i, batch.Seq)
		}
	}
	// The disk is read by the megabyte: where one ends a batch may be cut.
	st := sp.Stats()
	full, most := 2*slots/b.cfg.PublishBatch, 2*slots/b.cfg.PublishBatch+4
	if st.Cursor != 2*slots || len(g.calls) < full || len(g.calls) > most {
		t.Errorf("%d acknowledged in %d calls %v, want %d in %d to %d", st.Cursor, len(g.calls), g.calls, 2*slots, full, most)
	}
}

// TestABackfillWaitsWhereLiveDrops: it reads no further than a blocking spool has
// room, drops nothing, and goes on when the broker is back.
func TestABackfillWaitsWhereLiveDrops(t *testing.T) {
	const slots = 400
	sp, err := spool.Open(t.TempDir(), spool.Options{MaxBytes: 64 << 10, Policy: spool.Block, Describe: Describe})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sp.Close(); err != nil {
			t.Error(err)
		}
	})
	b, g := newRealBench(t, start, sp, "n1", "n2"), newGate(false)
	b.cfg.BackfillGroup, b.deps.Producer, b.source.reads = 5, g, make(chan time.Time, slots)
	pad := strings.Repeat("x", 500)
	b.source.edit = func(batch *wire.Batch) { batch.Events = []*wire.Event{{Kind: "xid", Detail: pad}} }
	ctx, cancel := context.WithCancel(testContext(t))
	filled, published := make(chan error, 1), make(chan error, 1)
	go func() { filled <- b.Backfill(ctx, start, start.Add(slots*b.cfg.Slot), nil) }()
	go func() { published <- b.Publish(ctx) }()
	await(t, func() bool { return sp.Stats().Bytes > 60<<10 })
	select {
	case err := <-filled:
		t.Fatalf("backfill ended with %v on a full spool", err)
	default:
	}
	if n := len(b.source.reads); n > slots/4 {
		t.Errorf("%d of %d slots were read, with room for some 50", n, slots)
	}
	close(g.open)
	if err := <-filled; err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return sp.Stats().Records == 0 })
	cancel()
	if err := <-published; err != nil {
		t.Error(err)
	}
	if st := sp.Stats(); st.Dropped != 0 || st.Cursor != 2*slots {
		t.Errorf("%d dropped, %d acknowledged, want none and %d", st.Dropped, st.Cursor, 2*slots)
	}
	for i, batch := range g.batches(t) {
		if batch.Seq != uint64(i) {
			t.Fatalf("message %d has seq %d", i, batch.Seq)
		}
	}
}
