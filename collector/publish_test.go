package collector

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/wire"
)

// fill spools one slot after the other by Backfill.
func fill(t *testing.T, b *bench, slots int) {
	t.Helper()
	if err := b.Backfill(testContext(t), start, start.Add(time.Duration(slots)*b.cfg.Slot), nil); err != nil {
		t.Fatal(err)
	}
}

// publishUntil runs Publish until the producer has n messages and the clock,
// moved on, wakes its back-off.
func publishUntil(t *testing.T, b *bench, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	b.producer.sent = make(chan int, 100)
	done := make(chan error, 1)
	go func() { done <- b.Publish(ctx) }()
	for sent := 0; sent < n; {
		select {
		case sent = <-b.producer.sent:
		case <-ctx.Done():
			t.Fatalf("%d messages sent, want %d", sent, n)
		}
		if sent >= n {
			break
		}
		if b.producer.fail != nil {
			if err := b.clk.BlockUntil(ctx, 1); err != nil {
				t.Fatal(err)
			}
			b.clk.Advance(b.cfg.RetryMax)
		}
	}
	// The acknowledgement follows the last call.
	for b.spool.ackedID() < uint64(len(b.spool.records)) && ctx.Err() == nil {
		select {
		case <-b.spool.ackMoved:
		case <-ctx.Done():
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("publish ended with %v", err)
	}
}

func TestPublishKeysAndHeaders(t *testing.T) {
	b := newBench(t, start, nil, newMemSpool(), "n1", "n2")
	fill(t, b, 3)
	publishUntil(t, b, 6)
	for i, m := range b.producer.messages {
		batch, _, err := wire.Decode(m.Value)
		if err != nil {
			t.Fatal(err)
		}
		node := fmt.Sprintf("n%d", i%2+1)
		if m.Topic != broker.TopicSamples || string(m.Key) != node || batch.Node != node || batch.Seq != uint64(i) {
			t.Errorf("message %d: topic %s, key %s, node %s, seq %d", i, m.Topic, m.Key, batch.Node, batch.Seq)
		}
		diff(t, []broker.Header{
			{Key: "cluster", Value: []byte("c")},
			{Key: "node", Value: []byte(node)},
			{Key: "collector", Value: []byte("col-1")},
			{Key: "boot", Value: []byte(strconv.FormatInt(start.UnixMilli(), 10))},
			{Key: "seq", Value: []byte(strconv.Itoa(i))},
		}, m.Headers)
	}
	if b.spool.ackedID() != 6 {
		t.Errorf("acknowledged up to %d, want 6", b.spool.ackedID())
	}
}

func TestPublishRetriesWhatFailed(t *testing.T) {
	b := newBench(t, start, nil, newMemSpool(), "n1", "n2")
	fill(t, b, 2)
	b.producer.fail = func(call int, messages []broker.Message) error {
		switch call {
		case 1:
			return errors.New("no broker answers")
		case 2: // only the second of four fails
			return &broker.ProduceError{Errs: []error{nil, errors.New("timeout"), nil, nil}}
		}
		return nil
	}
	publishUntil(t, b, 4)
	var seqs []string
	for _, m := range b.producer.messages {
		seqs = append(seqs, string(m.Headers[4].Value))
	}
	diff(t, []string{"0", "2", "3", "1"}, seqs)
	if n := b.count(t, "publish_errors_total", ""); n != 2 {
		t.Errorf("publish errors %v, want 2", n)
	}
}

func TestNothingIsAcknowledgedBeforeTheBroker(t *testing.T) {
	b := newBench(t, start, nil, newMemSpool(), "n1")
	fill(t, b, 1)
	b.producer.fail = func(int, []broker.Message) error { return errors.New("no broker answers") }
	b.producer.sent = make(chan int, 100)
	ctx, cancel := context.WithCancel(testContext(t))
	done := make(chan error, 1)
	go func() { done <- b.Publish(ctx) }()
	<-b.producer.sent
	cancel()
	if err := <-done; err != nil {
		t.Errorf("publish ended with %v", err)
	}
	if id := b.spool.ackedID(); id != 0 {
		t.Errorf("acknowledged up to %d, want nothing", id)
	}
}

func TestRefusedBatchesAreAnnounced(t *testing.T) {
	b := newBench(t, start, nil, newMemSpool(), "n1")
	fill(t, b, 2)
	b.producer.fail = func(call int, _ []broker.Message) error {
		if call == 1 {
			return &broker.ProduceError{Errs: []error{nil, fmt.Errorf("too large: %w", broker.ErrRefused)}}
		}
		return nil
	}
	publishUntil(t, b, 1)
	fill(t, b, 4)
	got := b.spool.batches(t)
	diff(t, []*wire.SeqGap{{BootMs: start.UnixMilli(), FromSeq: 1, ToSeq: 1, Reason: "refused"}}, got[2].Gaps)
	if len(got[3].Gaps) != 0 {
		t.Errorf("announced again: %v", got[3].Gaps)
	}
	if n := b.count(t, "messages_refused_total", ""); n != 1 {
		t.Errorf("refused %v, want 1", n)
	}
}

// TestARefusalSurvivesACrash: refused, acknowledged, killed before the next
// batch. The next boot announces the number, or it would be a hole in seq.
func TestARefusalSurvivesACrash(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	sp := openSpool(t, dir)
	b := newRealBench(t, start, sp, "n1")
	fill(t, b, 3)
	b.producer.fail = func(call int, messages []broker.Message) error {
		if call == 1 {
			return &broker.ProduceError{Errs: []error{nil, fmt.Errorf("too large: %w", broker.ErrRefused), errors.New("timeout")}}
		}
		return nil
	}
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- b.Publish(ctx) }()
	if err := b.clk.BlockUntil(ctx, 1); err != nil { // the back-off after the first call
		t.Fatal(err)
	}
	b.clk.Advance(b.cfg.RetryMax)
	await(t, func() bool { return sp.Stats().Records == 0 })
	crashed := filepath.Join(t.TempDir(), "spool")
	if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}

	next := openSpool(t, crashed)
	st := next.Stats()
	if st.Appended != 3 || st.Cursor != 2 || st.Dropped != 1 {
		t.Errorf("spool: %d appended, %d sent, %d dropped; want 3 = 2 + 1", st.Appended, st.Cursor, st.Dropped)
	}
	b = newRealBench(t, start.Add(time.Minute), next, "n1")
	fill(t, b, 5)
	records, err := next.Next(testContext(t), 10)
	if err != nil {
		t.Fatal(err)
	}
	batch, _, err := wire.Decode(records[0].Data)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, []*wire.SeqGap{{BootMs: start.UnixMilli(), FromSeq: 1, ToSeq: 1, Reason: "refused"}}, batch.Gaps)
}

// TestWhatARefusedBatchToldIsToldAgain: it has told nobody.
func TestWhatARefusedBatchToldIsToldAgain(t *testing.T) {
	b := newBench(t, start, nil, newMemSpool(), "n1")
	refuse := func(int, []broker.Message) error {
		return &broker.ProduceError{Errs: []error{broker.ErrRefused}}
	}
	accept := func(int, []broker.Message) error { return nil }
	for i, fail := range []func(int, []broker.Message) error{refuse, refuse, accept, accept} {
		fill(t, b, i+1)
		b.producer.fail = fail
		records, err := b.spool.Next(testContext(t), 10)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.publish(testContext(t), records); err != nil {
			t.Fatal(err)
		}
	}
	got := b.spool.batches(t)
	gap := func(seq uint64) *wire.SeqGap {
		return &wire.SeqGap{BootMs: start.UnixMilli(), FromSeq: seq, ToSeq: seq, Reason: "refused"}
	}
	for i, want := range [][]*wire.SeqGap{nil, {gap(0)}, {gap(0), gap(1)}, nil} {
		diff(t, want, got[i].Gaps)
	}
	for i, want := range []uint64{0, 1, 2, 2} {
		if n := got[i].Counters.SpoolDropped; n != want {
			t.Errorf("batch %d: spool_dropped %d, want %d", i, n, want)
		}
	}
	if left := b.spool.Stats().DroppedRanges; len(left) != 0 {
		t.Errorf("the spool still remembers %v", left)
	}
}

func TestSpoolLossesAreAnnouncedOnce(t *testing.T) {
	sp := newMemSpool()
	b := newBench(t, start, nil, sp, "n1")
	boot := start.UnixMilli()
	lose := func(r spool.DroppedRange) {
		sp.mu.Lock()
		defer sp.mu.Unlock()
		if n := len(sp.lost); n > 0 && sp.lost[n-1].FromID == r.FromID {
			sp.lost[n-1] = r // it has grown
			return
		}
		sp.lost = append(sp.lost, r)
	}
	gap := func(from, to uint64) []*wire.SeqGap {
		return []*wire.SeqGap{{BootMs: boot, FromSeq: from, ToSeq: to, Reason: spool.ReasonFull}}
	}
	fill(t, b, 5) // records 1 to 5
	lose(spool.DroppedRange{FromID: 1, ToID: 2, BootMS: boot, FromSeq: 0, ToSeq: 1, Reason: spool.ReasonFull})
	fill(t, b, 6) // record 6 tells
	fill(t, b, 7)
	lose(spool.DroppedRange{FromID: 1, ToID: 4, BootMS: boot, FromSeq: 0, ToSeq: 3, Reason: spool.ReasonFull})
	fill(t, b, 8) // record 8 tells the rest
	lose(spool.DroppedRange{FromID: 1, ToID: 6, BootMS: boot, FromSeq: 0, ToSeq: 5, Reason: spool.ReasonFull})
	fill(t, b, 9) // record 6 is lost itself: what it told must be told again
	got := sp.batches(t)
	for i, want := range [][]*wire.SeqGap{5: gap(0, 1), 6: nil, 7: gap(2, 3), 8: gap(0, 5)} {
		diff(t, want, got[i].Gaps)
	}
	for i, want := range []uint64{5: 2, 6: 2, 7: 4, 8: 6} {
		if n := got[i].Counters.SpoolDropped; n != want {
			t.Errorf("record %d: spool_dropped %d, want %d", i+1, n, want)
		}
	}
	publishUntil(t, b, 3) // what is lost isn't sent
	if left := sp.Stats().DroppedRanges; len(left) != 0 {
		t.Errorf("the spool still remembers %v", left)
	}
	fill(t, b, 10)
	last := sp.batches(t)[9]
	if len(last.Gaps) != 0 || last.Counters.SpoolDropped != 6 {
		t.Errorf("after all was told: gaps %v, spool_dropped %d; want none and 6", last.Gaps, last.Counters.SpoolDropped)
	}
}

// A produce that ends with the context is no failure: what it had not sent is
// sent after the next start.
func TestPublishEndsQuietlyWithItsContext(t *testing.T) {
	b := newBench(t, start, nil, newMemSpool(), "n1")
	if err := b.Backfill(testContext(t), start, start.Add(b.cfg.Slot), nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(testContext(t))
	b.producer.fail = func(int, []broker.Message) error {
		cancel()
		return ctx.Err()
	}
	if err := b.Publish(ctx); err != nil {
		t.Errorf("publish ended with %v", err)
	}
	if n := b.count(t, "publish_errors_total", ""); n != 0 || b.spool.ackedID() != 0 {
		t.Errorf("%v failures counted, %d acknowledged, want none of either", n, b.spool.ackedID())
	}
}
