package spool

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestDropOldestTellsWhatIsLost(t *testing.T) {
	dir := t.TempDir()
	opt := Options{SegmentBytes: 500, MaxBytes: minMaxBytes, Describe: describe}
	s := open(t, dir, opt)
	for seq := uint64(0); seq < 100; seq++ {
		appendSeqs(t, s, seq, seq+1, 100)
		if st := checkSum(t, s); st.Bytes > minMaxBytes {
			t.Fatalf("spool has %d bytes, cap %d", st.Bytes, minMaxBytes)
		}
	}
	st := checkSum(t, s)
	if st.Dropped < 50 || st.Appended != 100 {
		t.Fatalf("stats %+v, want most of 100 dropped", st)
	}
	want := []DroppedRange{{FromID: 1, ToID: st.Dropped, BootMS: 1000, FromSeq: 0, ToSeq: st.Dropped - 1, Reason: ReasonFull}}
	if diff := cmp.Diff(want, st.DroppedRanges); diff != "" {
		t.Errorf("DroppedRanges (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(ids(st.Dropped+1, 100), drain(t, s)); diff != "" {
		t.Errorf("ids left (-want +got):\n%s", diff)
	}
	// The reader was in what is now dropped; more is dropped, then acknowledged late.
	appendSeqs(t, s, 100, 130, 100)
	if err := s.Ack(100); err != nil {
		t.Fatal(err)
	}
	after := checkSum(t, s)
	if after.Dropped <= st.Dropped {
		t.Errorf("dropped %d after more appends, want over %d", after.Dropped, st.Dropped)
	}
	if err := s.ForgetDropped(st.DroppedRanges); err != nil {
		t.Fatal(err)
	}
	want = []DroppedRange{{
		FromID: st.Dropped + 1, ToID: after.Dropped, BootMS: 1000, FromSeq: st.Dropped, ToSeq: after.Dropped - 1, Reason: ReasonFull,
	}}
	crashed := open(t, copyDir(t, dir), opt)
	if diff := cmp.Diff(want, checkSum(t, crashed).DroppedRanges); diff != "" {
		t.Errorf("DroppedRanges after announcing and a crash (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(checkSum(t, s), checkSum(t, crashed), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Stats after a crash (-before +after):\n%s", diff)
	}
}

func TestDropOldestSplitsRangesByBoot(t *testing.T) {
	s := open(t, t.TempDir(), Options{MaxBytes: minMaxBytes, SegmentBytes: 1000, Describe: describe})
	for _, rec := range [][]byte{record(1, 8, 300), record(1, 9, 300), record(2, 0, 300)} {
		if _, err := s.Append(testContext(t), [][]byte{rec}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Append(testContext(t), [][]byte{make([]byte, minMaxBytes-200)}); err != nil {
		t.Fatal(err)
	}
	want := []DroppedRange{
		{FromID: 1, ToID: 2, BootMS: 1, FromSeq: 8, ToSeq: 9, Reason: ReasonFull},
		{FromID: 3, ToID: 3, BootMS: 2, Reason: ReasonFull},
	}
	if diff := cmp.Diff(want, checkSum(t, s).DroppedRanges); diff != "" {
		t.Errorf("DroppedRanges (-want +got):\n%s", diff)
	}
}

func TestBlockWaitsForAck(t *testing.T) {
	s := open(t, t.TempDir(), Options{SegmentBytes: 500, MaxBytes: minMaxBytes, Policy: Block})
	var appended uint64
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		_, err := s.Append(ctx, [][]byte{make([]byte, 100)})
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		appended++
	}
	if st := checkSum(t, s); st.Dropped != 0 || st.Appended != appended {
		t.Fatalf("stats %+v, want %d appended and none dropped", st, appended)
	}
	done := make(chan error)
	go func() {
		_, err := s.Append(testContext(t), [][]byte{make([]byte, 100)})
		done <- err
	}()
	if err := s.Ack(appended); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("Append after Ack: %v", err)
	}
	// Everything acknowledged, one large group: the segment in use makes way.
	if err := s.Ack(appended + 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(testContext(t), [][]byte{make([]byte, minMaxBytes-100)}); err != nil {
		t.Errorf("Append of nearly the cap: %v", err)
	}
}

// TestRefusedIsDroppedAndSurvives: what the broker refuses for good is settled
// and told in one write, so that no crash comes between.
func TestRefusedIsDroppedAndSurvives(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{Describe: describe})
	appendSeqs(t, s, 0, 6, 100)
	recs := drainRecords(t, s)
	if err := s.Ack(4, recs[1], recs[2], recs[5]); err != nil { // the last one isn't settled yet
		t.Fatal(err)
	}
	want := []DroppedRange{{FromID: 2, ToID: 3, BootMS: 1000, FromSeq: 1, ToSeq: 2, Reason: ReasonRefused}}
	check := func(s *Spool, cursor, records uint64) {
		t.Helper()
		st := checkSum(t, s)
		if st.Cursor != cursor || st.Records != records || st.Dropped != 2 {
			t.Errorf("cursor %d, records %d, dropped %d; want %d, %d, 2", st.Cursor, st.Records, st.Dropped, cursor, records)
		}
		if diff := cmp.Diff(want, st.DroppedRanges); diff != "" {
			t.Errorf("ranges (-want +got)\n%s", diff)
		}
	}
	check(s, 2, 2)
	crashed := open(t, copyDir(t, dir), Options{Describe: describe})
	check(crashed, 2, 2)
	if err := crashed.Ack(6, recs[1]); err != nil { // settled before: told once
		t.Fatal(err)
	}
	check(crashed, 4, 0)
}
