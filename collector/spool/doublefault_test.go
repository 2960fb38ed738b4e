package spool

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestNothingIsRemovedOnAnUnsavedCursor: an Ack that the disk refused has moved
// the cursor in memory only. A segment removed on its word would be damage after
// a crash, and told as lost though it arrived.
func TestNothingIsRemovedOnAnUnsavedCursor(t *testing.T) {
	dir, disk := t.TempDir(), newMemFS()
	opt := Options{SegmentBytes: 500, MaxBytes: minMaxBytes, Describe: describe, fs: disk}
	s := open(t, dir, opt)
	for seq := range uint64(30) {
		appendSeqs(t, s, seq, seq+1, 100)
	}
	disk.fail = func(op, name string) error {
		if op == "write" && strings.HasPrefix(name, "state") {
			return syscall.EIO
		}
		return nil
	}
	if err := s.Ack(20); err == nil {
		t.Fatal("Ack on a disk that takes no state: no error")
	}
	for seq := uint64(30); seq < 36; seq++ { // up to the cap and beyond: it fails there
		_, _ = s.Append(testContext(t), [][]byte{record(1000, seq, 100)})
	}
	last := s.Stats().Appended
	crashed := openAt(t, dir, disk, opt)
	st := checkSum(t, crashed)
	if st.CorruptRecords != 0 || len(st.DroppedRanges) != 0 {
		t.Errorf("after a crash %d records are corrupt, %+v; none is", st.CorruptRecords, st.DroppedRanges)
	}
	if diff := cmp.Diff(ids(st.Cursor+1, last), drain(t, crashed)); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
}

// openAt opens what a SIGKILL leaves of a spool in memory, while its owner still
// has the lock on the directory.
func openAt(t *testing.T, dir string, disk *memFS, opt Options) *Spool {
	t.Helper()
	fresh, killed := t.TempDir(), newMemFS()
	for path, inode := range disk.clone().files {
		killed.put(filepath.Join(fresh, strings.TrimPrefix(path, dir)), inode.data)
	}
	opt.fs = killed
	return open(t, fresh, opt)
}

// TestDamageInADroppedSegmentIsTold: what can't be read when the full spool gives
// it up is lost too, and its numbers with it.
func TestDamageInADroppedSegmentIsTold(t *testing.T) {
	for name, damaged := range map[string][]uint64{"at the start": {1}, "in the middle": {2}, "at the end": {4}, "all": {1, 2, 3, 4}} {
		t.Run(name, func(t *testing.T) {
			dir, disk := t.TempDir(), newMemFS()
			s := open(t, dir, Options{SegmentBytes: 550, MaxBytes: minMaxBytes, Describe: describe, fs: disk})
			for seq := range uint64(24) {
				appendSeqs(t, s, seq, seq+1, 100)
			}
			if s.end(0) != 4 {
				t.Fatalf("the first segment ends at %d, want 4", s.end(0))
			}
			data := disk.files[s.path(1)].data
			for _, id := range damaged {
				data[headerBytes+int(id)*124-1] ^= 1
			}
			for seq := uint64(24); checkSum(t, s).Dropped == 0; seq++ {
				appendSeqs(t, s, seq, seq+1, 100)
			}
			st := checkSum(t, s)
			if st.Dropped != 4 || st.CorruptRecords != uint64(len(damaged)) {
				t.Errorf("%d dropped, %d of them corrupt, want 4 and %d", st.Dropped, st.CorruptRecords, len(damaged))
			}
			seqs := map[uint64]string{}
			for _, r := range st.DroppedRanges {
				for seq := r.FromSeq; seq <= r.ToSeq && r.BootMS == 1000; seq++ {
					seqs[seq] = r.Reason
				}
			}
			want := map[uint64]string{0: ReasonFull, 1: ReasonFull, 2: ReasonFull, 3: ReasonFull}
			for _, id := range damaged {
				want[id-1] = ReasonCorrupt
			}
			if diff := cmp.Diff(want, seqs, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("seqs told (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDamageAroundDamageNamesItsSeqs: what was noted before is noted once, and what
// lies around it has its own numbers.
func TestDamageAroundDamageNamesItsSeqs(t *testing.T) {
	s := open(t, t.TempDir(), Options{Describe: describe})
	appendSeqs(t, s, 10, 17, 100)
	s.noteDamage(3, 3, record(1000, 13, 100))
	s.noteDamage(2, 5, record(1000, 15, 100))
	s.noteDamage(2, 5, record(1000, 15, 100))
	lost := func(from, to uint64) DroppedRange {
		return DroppedRange{FromID: from, ToID: to, BootMS: 1000, FromSeq: from + 9, ToSeq: to + 9, Reason: ReasonCorrupt}
	}
	st := checkSum(t, s)
	if diff := cmp.Diff([]DroppedRange{lost(3, 3), lost(2, 2), lost(4, 5)}, st.DroppedRanges); diff != "" || st.CorruptRecords != 4 {
		t.Errorf("%d corrupt; ranges (-want +got):\n%s", st.CorruptRecords, diff)
	}
}

// A segment whose first append was torn within its header is begun anew.
func TestASegmentThatNeverBegan(t *testing.T) {
	dir, disk := t.TempDir(), newMemFS()
	opt := Options{SegmentBytes: 300, Describe: describe, fs: disk}
	s := open(t, dir, opt)
	for seq := range uint64(6) {
		appendSeqs(t, s, seq, seq+1, 100)
	}
	want := checkSum(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	disk.put(filepath.Join(dir, segmentName(7)), appendHeader(nil, 7)[:20])
	s = open(t, dir, opt)
	appendSeqs(t, s, 6, 7, 100)
	want.Appended, want.Records, want.Segments, want.Bytes = 7, 7, want.Segments+1, want.Bytes+headerBytes+frameHeadBytes+100
	if diff := cmp.Diff(want, checkSum(t, s), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Stats (-want +got):\n%s", diff)
	}
	sameIDs(t, ids(1, 7), drain(t, s))
}

// TestDamageAtTheEndOfASegmentNamesItsSeqs, read while the spool is open: the
// record behind the damage stands in the next segment.
func TestDamageAtTheEndOfASegmentNamesItsSeqs(t *testing.T) {
	dir, disk := t.TempDir(), newMemFS()
	s := open(t, dir, Options{SegmentBytes: 550, Describe: describe, fs: disk})
	for seq := range uint64(12) {
		appendSeqs(t, s, seq, seq+1, 100)
	}
	data := disk.files[s.path(1)].data
	data[headerBytes+3*124+30] ^= 1
	data[headerBytes+4*124-1] ^= 1
	disk.files[s.path(9)].data = nil // the last segment, emptied: only Meta knows it
	if diff := cmp.Diff([]uint64{1, 2, 3, 5, 6, 7, 8}, drain(t, s)); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	want := []DroppedRange{
		{FromID: 4, ToID: 4, BootMS: 1000, FromSeq: 3, ToSeq: 3, Reason: ReasonCorrupt},
		{FromID: 9, ToID: 12, BootMS: 1000, FromSeq: 8, ToSeq: 11, Reason: ReasonCorrupt},
	}
	if diff := cmp.Diff(want, checkSum(t, s).DroppedRanges); diff != "" {
		t.Errorf("DroppedRanges (-want +got):\n%s", diff)
	}
}
