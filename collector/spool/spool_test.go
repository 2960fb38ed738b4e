package spool

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gputally/gputally/internal/files"
)

func testContext(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	tb.Cleanup(cancel)
	return ctx
}

func open(tb testing.TB, dir string, opt Options) *Spool {
	tb.Helper()
	s, err := Open(dir, opt)
	if err != nil {
		tb.Fatalf("Open: %v", err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// A test record is boot, seq and padding that follows from them.
func record(boot int64, seq uint64, size int) []byte {
	data := make([]byte, 16, max(size, 16))
	binary.BigEndian.PutUint64(data, uint64(boot))
	binary.BigEndian.PutUint64(data[8:], seq)
	for len(data) < size {
		data = append(data, byte(seq)+byte(len(data)))
	}
	return data
}

func describe(data []byte) (Origin, bool) {
	if len(data) < 16 {
		return Origin{}, false
	}
	boot, seq := binary.BigEndian.Uint64(data), binary.BigEndian.Uint64(data[8:])
	return Origin{
		BootMS: int64(boot), Seq: seq, Node: fmt.Sprintf("node-%d", seq%2), SlotStartMS: int64(seq) * 10_000,
	}, true
}

// appendSeqs appends one record per seq of boot 1000, in one group.
func appendSeqs(tb testing.TB, s *Spool, from, to uint64, size int) {
	tb.Helper()
	var recs [][]byte
	for seq := from; seq < to; seq++ {
		recs = append(recs, record(1000, seq, size))
	}
	if _, err := s.Append(testContext(tb), recs); err != nil {
		tb.Fatalf("Append: %v", err)
	}
}

// drain reads until nothing is left, and gives ids.
func drain(tb testing.TB, s *Spool) []uint64 {
	tb.Helper()
	var ids []uint64
	for _, r := range drainRecords(tb, s) {
		ids = append(ids, r.ID)
	}
	return ids
}

func drainRecords(tb testing.TB, s *Spool) []Record {
	tb.Helper()
	ctx, cancel := context.WithCancel(testContext(tb))
	cancel() // what is there comes without waiting
	var all []Record
	for {
		recs, err := s.Next(ctx, 1000)
		if errors.Is(err, context.Canceled) {
			return all
		}
		if err != nil {
			tb.Fatalf("Next: %v", err)
		}
		all = append(all, recs...)
	}
}

func ids(from, to uint64) []uint64 {
	var out []uint64
	for id := from; id <= to; id++ {
		out = append(out, id)
	}
	return out
}

// checkSum asserts C2 and returns the stats.
func checkSum(tb testing.TB, s *Spool) Stats {
	tb.Helper()
	st := s.Stats()
	if st.Appended != st.Cursor+st.Records+st.Dropped {
		tb.Errorf("appended %d != cursor %d + records %d + dropped %d", st.Appended, st.Cursor, st.Records, st.Dropped)
	}
	return st
}

func TestAppendNextAck(t *testing.T) {
	s := open(t, t.TempDir(), Options{Describe: describe})
	appendSeqs(t, s, 0, 3, 100)
	first, err := s.Append(testContext(t), [][]byte{record(1000, 3, 50)})
	if err != nil || first != 4 {
		t.Fatalf("Append = %d, %v, want id 4", first, err)
	}
	recs, err := s.Next(testContext(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	want := []Record{{1, record(1000, 0, 100)}, {2, record(1000, 1, 100)}}
	if diff := cmp.Diff(want, recs); diff != "" {
		t.Errorf("Next (-want +got):\n%s", diff)
	}
	if err := s.Ack(2); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ids(3, 4), drain(t, s)); diff != "" {
		t.Errorf("ids after that (-want +got):\n%s", diff)
	}
	wantStats := Stats{Appended: 4, Cursor: 2, Records: 2, Segments: 1, Bytes: headerBytes + 4*frameHeadBytes + 350}
	if diff := cmp.Diff(wantStats, checkSum(t, s), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Stats (-want +got):\n%s", diff)
	}
	if err := s.Ack(5); err == nil {
		t.Error("Ack of an id never given succeeded")
	}
	if err := s.Ack(1); err != nil {
		t.Errorf("Ack of a settled id: %v", err)
	}
}

func TestReopenGoesOnBehindTheCursor(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{SegmentBytes: 400, Describe: describe})
	for seq := uint64(0); seq < 20; seq++ {
		appendSeqs(t, s, seq, seq+1, 100)
	}
	if err := s.Ack(7); err != nil {
		t.Fatal(err)
	}
	before := checkSum(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{SegmentBytes: 400, Describe: describe})
	if diff := cmp.Diff(before, checkSum(t, s), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Stats after reopening (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(ids(8, 20), drain(t, s)); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	if before.Segments != 7 {
		t.Errorf("%d of 10 segments are left, want the 3 below the cursor deleted", before.Segments)
	}
	appendSeqs(t, s, 20, 21, 100)
	if diff := cmp.Diff(ids(21, 21), drain(t, s)); diff != "" {
		t.Errorf("ids appended after reopening (-want +got):\n%s", diff)
	}
}

func TestEmptySpoolKeepsCounting(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{SegmentBytes: 400})
	appendSeqs(t, s, 0, 10, 100)
	if err := s.Ack(10); err != nil {
		t.Fatal(err)
	}
	if st := checkSum(t, s); st.Bytes != 0 || st.Cursor != 10 {
		t.Errorf("stats of an acknowledged spool: %+v, want no bytes and cursor 10", st)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{SegmentBytes: 400})
	if first, err := s.Append(testContext(t), [][]byte{{1}}); err != nil || first != 11 {
		t.Errorf("Append = %d, %v, want id 11", first, err)
	}
}

func TestMetaCoversAcknowledgedRecords(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{SegmentBytes: 400, Describe: describe})
	appendSeqs(t, s, 0, 10, 100)
	if err := s.Ack(10); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(testContext(t), [][]byte{record(2000, 0, 100)}); err != nil {
		t.Fatal(err)
	}
	want := Meta{BootMS: 2000, LastSeq: 0, LastSlotStartMS: map[string]int64{"node-0": 80_000, "node-1": 90_000}}
	if diff := cmp.Diff(want, s.Meta()); diff != "" {
		t.Errorf("Meta (-want +got):\n%s", diff)
	}
	crashed := copyDir(t, dir) // without the state that Close saves
	if diff := cmp.Diff(want, open(t, crashed, Options{Describe: describe}).Meta()); diff != "" {
		t.Errorf("Meta after a crash (-want +got):\n%s", diff)
	}
}

// copyDir takes the directory as it is on disk, as a SIGKILL would leave it.
func copyDir(tb testing.TB, dir string) string {
	tb.Helper()
	to := tb.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		tb.Fatal(err)
	}
	return to
}

func TestNextWaitsForAppend(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	got := make(chan []Record)
	go func() {
		recs, err := s.Next(testContext(t), 10)
		if err != nil {
			t.Error(err)
		}
		got <- recs
	}()
	if _, err := s.Append(testContext(t), [][]byte{{7}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Record{{1, []byte{7}}}, <-got); diff != "" {
		t.Errorf("Next (-want +got):\n%s", diff)
	}
	go func() {
		_, err := s.Next(testContext(t), 10)
		if !errors.Is(err, ErrClosed) {
			t.Errorf("Next on a closed spool: %v, want ErrClosed", err)
		}
		got <- nil
	}()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	<-got
}

func TestRewindSendsAgain(t *testing.T) {
	s := open(t, t.TempDir(), Options{SegmentBytes: 300})
	for seq := uint64(0); seq < 10; seq++ {
		appendSeqs(t, s, seq, seq+1, 100)
	}
	drain(t, s)
	if err := s.Ack(4); err != nil {
		t.Fatal(err)
	}
	s.Rewind()
	if diff := cmp.Diff(ids(5, 10), drain(t, s)); diff != "" {
		t.Errorf("ids after Rewind (-want +got):\n%s", diff)
	}
}

func TestNextReadsBeyondChunks(t *testing.T) {
	s := open(t, t.TempDir(), Options{MaxBytes: 64 << 20})
	sizes := []int{100, 3 << 20, 700 << 10, 700 << 10, 20, 5 << 20, 16}
	var want []Record
	for i, size := range sizes {
		want = append(want, Record{uint64(i + 1), record(1000, uint64(i), size)})
		appendSeqs(t, s, uint64(i), uint64(i)+1, size)
	}
	checkRecords(t, want, drainRecords(t, s))
	if err := s.Ack(3); err != nil {
		t.Fatal(err)
	}
	s.Rewind() // a reader that enters in the middle of a segment
	checkRecords(t, want[3:], drainRecords(t, s))
}

// checkRecords is for records too large for a diff.
func checkRecords(tb testing.TB, want, got []Record) {
	tb.Helper()
	same := func(a, b Record) bool { return a.ID == b.ID && bytes.Equal(a.Data, b.Data) }
	if !slices.EqualFunc(want, got, same) {
		tb.Errorf("%d records differ from the %d that were appended", len(got), len(want))
	}
}

func TestOpenRefusesSecondOwnerAndNewerFormat(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	if _, err := Open(dir, Options{}); !errors.Is(err, files.ErrLocked) {
		t.Errorf("second Open: %v, want ErrLocked", err)
	}
	appendSeqs(t, s, 0, 1, 50)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, segmentName(1))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	newer := appendHeader(nil, 1)
	newer[headerVersionAt] = 9
	sealHeader(newer)
	copy(data, newer)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, errFormat) {
		t.Errorf("Open of version 9: %v, want errFormat", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, opt := range []Options{{MaxBytes: 100}, {SegmentBytes: -1}, {Policy: 7}} {
		if _, err := Open(t.TempDir(), opt); err == nil {
			t.Errorf("Open with %+v succeeded", opt)
		}
	}
}

func TestTooLargeIsRefused(t *testing.T) {
	s := open(t, t.TempDir(), Options{MaxBytes: minMaxBytes})
	if _, err := s.Append(testContext(t), [][]byte{make([]byte, minMaxBytes)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Append over MaxBytes: %v, want ErrTooLarge", err)
	}
	if st := checkSum(t, s); st.Appended != 0 || st.Dropped != 0 {
		t.Errorf("stats %+v, want nothing appended or dropped", st)
	}
}

func TestConcurrentUse(t *testing.T) {
	s := open(t, t.TempDir(), Options{SegmentBytes: 2000, MaxBytes: 16_000, Policy: Block, Describe: describe})
	const writers, each = 4, 200
	ctx := testContext(t)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if _, err := s.Append(ctx, [][]byte{record(int64(w), uint64(i), 60), record(int64(w), uint64(i), 60)}); err != nil {
					t.Errorf("Append: %v", err)
					return
				}
			}
		})
	}
	var next uint64 = 1
	for next <= 2*writers*each {
		recs, err := s.Next(ctx, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range recs {
			if r.ID != next {
				t.Fatalf("Next gave id %d, want %d", r.ID, next)
			}
			next++
		}
		checkSum(t, s)
		if err := s.Ack(next - 1); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	if st := checkSum(t, s); st.Cursor != 2*writers*each || st.Dropped != 0 {
		t.Errorf("stats %+v, want all acknowledged", st)
	}
}
