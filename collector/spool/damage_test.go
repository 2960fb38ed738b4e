package spool

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gputally/gputally/internal/costtest"
)

func sealHeader(header []byte) {
	binary.LittleEndian.PutUint32(header[headerCRCAt:], crc32.Checksum(header[:headerCRCAt], castagnoli))
}

// image builds a segment from id 1 on with the given record sizes, and says
// where each frame ends.
func image(sizes ...int) (segment []byte, ends []int) {
	segment = appendHeader(nil, 1)
	for i, size := range sizes {
		segment = appendFrame(segment, 1, uint64(i+1), record(1000, uint64(i), size))
		ends = append(ends, len(segment))
	}
	return segment, ends
}

// diskWith is a disk whose state says that ids up to last were acknowledged to
// the appender, and whose only segment holds data.
func diskWith(tb testing.TB, dir string, last uint64, segment []byte) *memFS {
	tb.Helper()
	disk := newMemFS()
	store := stateStore{fs: disk, dir: dir}
	err := store.save(state{Head: 1, Last: last, MetaThrough: last, Meta: Meta{BootMS: 1000, LastSeq: max(last, 1) - 1}})
	if err != nil {
		tb.Fatal(err)
	}
	disk.put(filepath.Join(dir, segmentName(1)), segment)
	return disk
}

func TestTruncationAtEveryByte(t *testing.T) {
	segment, ends := image(30, 90, 16, 200, 61)
	dir := t.TempDir()
	for size := 0; size <= len(segment); size++ {
		whole := uint64(0)
		end := min(size, headerBytes)
		for _, e := range ends {
			if e <= size {
				whole, end = whole+1, e
			}
		}
		s, err := Open(dir, Options{Describe: describe, fs: diskWith(t, dir, 0, segment[:size])})
		if err != nil {
			t.Fatalf("Open of %d bytes: %v", size, err)
		}
		if diff := cmp.Diff(ids(1, whole), drain(t, s)); diff != "" {
			t.Errorf("%d bytes: ids (-want +got):\n%s", size, diff)
		}
		st := checkSum(t, s)
		if st.TornBytes != int64(size-end) || st.CorruptRecords != 0 || st.Appended != whole {
			t.Errorf("%d bytes: %+v, want %d records and %d torn bytes", size, st, whole, size-end)
		}
		appendSeqs(t, s, 70, 71, 40)
		s.Rewind()
		if diff := cmp.Diff(ids(1, whole+1), drain(t, s)); diff != "" {
			t.Errorf("%d bytes: ids with one appended (-want +got):\n%s", size, diff)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Bytes that are none of the spool's may lie before any frame.
func TestBytesBetweenFrames(t *testing.T) {
	segment, ends := image(30, 90, 16)
	for _, at := range append([]int{headerBytes}, ends[:2]...) {
		for n := range 3 {
			dir := t.TempDir()
			data := slices.Insert(slices.Clone(segment), at, make([]byte, n)...)
			s := open(t, dir, Options{Describe: describe, fs: diskWith(t, dir, 3, data)})
			if st := checkSum(t, s); st.CorruptRecords != 0 || st.Records != 3 {
				t.Errorf("%d bytes at %d: %+v", n, at, st)
			}
			sameIDs(t, ids(1, 3), drain(t, s))
		}
	}
}

func TestBitFlipsInEveryByte(t *testing.T) {
	segment, ends := image(600, 16, 1000, 300, 700, 17, 900, 350)
	if len(segment) < 4000 {
		t.Fatalf("segment has %d bytes, want about 4 KiB", len(segment))
	}
	total := uint64(len(ends))
	dir := t.TempDir()
	for at := range places(t, len(segment)) {
		flipped := slices.Clone(segment)
		flipped[at] ^= 1 << (at % 8)
		hit := uint64(slices.IndexFunc(ends, func(end int) bool { return at < end }) + 1)
		if at < headerBytes {
			hit = 0 // the header's loss costs no record
		}
		want := slices.DeleteFunc(ids(1, total), func(id uint64) bool { return id == hit })
		s, err := Open(dir, Options{Describe: describe, fs: diskWith(t, dir, total, flipped)})
		if err != nil {
			t.Fatalf("byte %d: Open: %v", at, err)
		}
		if diff := cmp.Diff(want, drain(t, s)); diff != "" {
			t.Errorf("byte %d: ids (-want +got):\n%s", at, diff)
		}
		checkFlip(t, at, hit, checkSum(t, s))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func checkFlip(t *testing.T, at int, hit uint64, st Stats) {
	t.Helper()
	var ranges []DroppedRange
	if hit > 0 {
		ranges = []DroppedRange{{FromID: hit, ToID: hit, BootMS: 1000, FromSeq: hit - 1, ToSeq: hit - 1, Reason: ReasonCorrupt}}
	}
	if diff := cmp.Diff(ranges, st.DroppedRanges, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("byte %d: DroppedRanges (-want +got):\n%s", at, diff)
	}
	if st.CorruptRecords != uint64(len(ranges)) || st.TornBytes != 0 {
		t.Errorf("byte %d: %d records corrupt and %d bytes torn, want %d and 0", at, st.CorruptRecords, st.TornBytes, len(ranges))
	}
}

func TestDamageWhileOpenIsSkippedAndCounted(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{SegmentBytes: 1000, Describe: describe})
	for seq := uint64(0); seq < 20; seq++ {
		appendSeqs(t, s, seq, seq+1, 100)
	}
	path := filepath.Join(dir, segmentName(1))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[headerBytes+2*124+50] ^= 1 // record 3's data
	data[headerBytes+3*124] ^= 1    // record 4's magic
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	want := append(ids(1, 2), ids(5, 20)...)
	if diff := cmp.Diff(want, drain(t, s)); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	st := checkSum(t, s)
	wantRanges := []DroppedRange{{FromID: 3, ToID: 4, BootMS: 1000, FromSeq: 2, ToSeq: 3, Reason: ReasonCorrupt}}
	if diff := cmp.Diff(wantRanges, st.DroppedRanges); diff != "" {
		t.Errorf("DroppedRanges (-want +got):\n%s", diff)
	}
	if err := s.ForgetDropped(st.DroppedRanges); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{SegmentBytes: 1000, Describe: describe})
	if st = checkSum(t, s); st.CorruptRecords != 2 || len(st.DroppedRanges) != 0 {
		t.Errorf("after reopening: %+v, want 2 corrupt records, announced already", st)
	}
	if err := s.Ack(20); err != nil {
		t.Fatal(err)
	}
	if st = checkSum(t, s); st.Cursor != 18 || st.Dropped != 2 || st.CorruptRecords != 2 {
		t.Errorf("after Ack: %+v, want cursor 18 and 2 corrupt", st)
	}
}

func TestMissingSegmentIsDamage(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{SegmentBytes: 500, Describe: describe})
	for seq := uint64(0); seq < 20; seq++ {
		appendSeqs(t, s, seq, seq+1, 100)
	}
	second := s.segs[1].first
	third := s.segs[2].first
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, segmentName(second))); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{Describe: describe})
	if diff := cmp.Diff(append(ids(1, second-1), ids(third, 20)...), drain(t, s)); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	if st := checkSum(t, s); st.CorruptRecords != third-second {
		t.Errorf("%d corrupt records, want %d", st.CorruptRecords, third-second)
	}
}

func TestLostStateSendsEverythingLeft(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{SegmentBytes: 500})
	for seq := uint64(0); seq < 20; seq++ {
		appendSeqs(t, s, seq, seq+1, 100)
	}
	if err := s.Ack(10); err != nil {
		t.Fatal(err)
	}
	oldest := s.segs[0].first
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range stateNames {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("garbage"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, dir, Options{})
	if diff := cmp.Diff(ids(oldest, 20), drain(t, s)); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	if st := checkSum(t, s); st.Appended != 20 || st.Dropped != 0 {
		t.Errorf("stats %+v, want 20 appended and none dropped", st)
	}
}

func TestTornStateLeavesTheOneBefore(t *testing.T) {
	dir := t.TempDir()
	store := stateStore{fs: osFS{}, dir: dir}
	for head := uint64(1); head <= 4; head++ {
		if err := store.save(state{Head: head}); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, stateNames[store.generation%2])
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range data {
		torn := slices.Clone(data)
		torn[at] ^= 0x40
		if err := os.WriteFile(path, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		again := stateStore{fs: osFS{}, dir: dir}
		st, ok, err := again.load()
		if err != nil || !ok || st.Head != 3 {
			t.Fatalf("byte %d damaged: head %d, %v, %v, want the one before, 3", at, st.Head, ok, err)
		}
	}
}

// FuzzSegment opens arbitrary bytes as the only segment: no panic, ids ascend,
// and what survives is there byte for byte as a frame.
func FuzzSegment(f *testing.F) {
	whole, ends := image(20, 100, 16, 40)
	f.Add(whole)
	f.Add(whole[:ends[2]-3])
	f.Add(append(slices.Clone(whole[:ends[0]]), whole[ends[1]:]...))
	f.Add(append(slices.Clone(whole), whole...))
	f.Add([]byte(frameMagic + frameMagic + segmentMagic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		costtest.Within(t, costtest.Time, 64<<20+4<<10*uint64(len(data)), func() {
			last, read := uint64(0), 0
			end := scanSegment(data, 1, func(id uint64, rec []byte) {
				if id <= last {
					t.Fatalf("id %d after %d", id, last)
				}
				frame := appendFrame(nil, 1, id, rec)
				if !bytes.Contains(data, frame) {
					t.Fatalf("record %d is not in the segment as a frame", id)
				}
				last = id
				read++
			})
			if end > len(data) || (read > 0 && end < headerBytes+frameHeadBytes) {
				t.Fatalf("scan of %d bytes ends at %d with %d records", len(data), end, read)
			}
		})
	})
}
