package spool

import (
	"bytes"
	"iter"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// still is a closed spool of several segments, byte for byte, and the place of
// each record in it.
type still struct {
	dir   string
	files map[string][]byte // by name
	place map[uint64]span
	last  uint64
}

// span is where a frame stands in a segment.
type span struct {
	file     string
	from, to int
}

var stillOptions = Options{SegmentBytes: 1000, MaxBytes: 1 << 20, Describe: describe}

// takeStill makes a spool of 21 records, the first five acknowledged, with a
// second state that is older than the last records.
func takeStill(t *testing.T) still {
	t.Helper()
	disk := newMemFS()
	opt := stillOptions
	opt.fs = disk
	q := still{dir: t.TempDir(), files: map[string][]byte{}, place: map[uint64]span{}, last: 21}
	s := open(t, q.dir, opt)
	for id := uint64(1); id <= q.last; id += 3 {
		if _, err := s.Append(testContext(t), [][]byte{workloadRecord(id), workloadRecord(id + 1), workloadRecord(id + 2)}); err != nil {
			t.Fatal(err)
		}
		if id == 10 {
			if err := s.Ack(5); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for path, inode := range disk.files {
		name := filepath.Base(path)
		q.files[name] = slices.Clone(inode.data)
		if first, ok := parseSegmentName(name); ok {
			scanSegment(inode.data, first, func(id uint64, data []byte) {
				end := frameEnd(inode.data, first, id)
				q.place[id] = span{name, end - frameHeadBytes - len(data), end}
			})
		}
	}
	if len(q.files) < 6 {
		t.Fatalf("files %v, want two states and four segments or more", slices.Sorted(maps.Keys(q.files)))
	}
	return q
}

// frameEnd is where the frame with an id ends in a segment without damage.
func frameEnd(segment []byte, first, id uint64) int {
	for pos := headerBytes; ; {
		have, _, size, v := decodeFrame(segment[pos:], first)
		if pos += size; have == id || v != frameOK {
			return pos
		}
	}
}

// head is the lowest id not settled, as the newest whole state has it.
func (q still) head(t *testing.T, files map[string][]byte) uint64 {
	t.Helper()
	head, newest := uint64(0), uint64(0)
	for _, name := range stateNames {
		if st, generation, ok := decodeState(files[name]); ok && generation >= newest {
			head, newest = st.Head, generation
		}
	}
	if head == 0 {
		t.Fatal("both states are damaged")
	}
	return head
}

// check opens the spool with one file replaced, whose records hit are lost, and
// asserts that these are told, by count and place, and that nothing else is.
func (q still) check(t *testing.T, name string, data []byte, hit func(span) bool) {
	t.Helper()
	files := maps.Clone(q.files)
	files[name] = data
	disk := newMemFS()
	for file, data := range files {
		disk.put(filepath.Join(q.dir, file), data)
	}
	opt := stillOptions
	opt.fs = disk
	s, err := Open(q.dir, opt)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	var want []uint64
	var lost []DroppedRange
	for id := q.head(t, files); id <= q.last; id++ {
		if at := q.place[id]; at.file == name && hit(at) {
			lost = addRange(lost, DroppedRange{FromID: id, ToID: id, BootMS: workloadBoot, FromSeq: id - 1, ToSeq: id - 1, Reason: ReasonCorrupt})
			continue
		}
		want = append(want, id)
	}
	q.checkOpen(t, s, want, lost)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for file := range q.files {
		if first, ok := parseSegmentName(file); ok && first > 5 && disk.files[filepath.Join(q.dir, file)] == nil {
			t.Errorf("segment %s was removed", file)
		}
	}
}

func (q still) checkOpen(t *testing.T, s *Spool, want []uint64, lost []DroppedRange) {
	t.Helper()
	records, st := drainRecords(t, s), checkSum(t, s)
	sameIDs(t, want, idsOf(records))
	for _, r := range records {
		if !bytes.Equal(workloadRecord(r.ID), r.Data) {
			t.Errorf("record %d is not what was appended", r.ID)
		}
	}
	if !slices.Equal(lost, st.DroppedRanges) {
		t.Errorf("DroppedRanges (-want +got):\n%s", cmp.Diff(lost, st.DroppedRanges))
	}
	if n := told(lost); st.Appended != q.last || st.CorruptRecords != n || st.Dropped != n {
		t.Errorf("stats %+v, want %d appended and %d corrupt", st, q.last, n)
	}
	appendSeqs(t, s, q.last, q.last+1, 40)
	s.Rewind()
	sameIDs(t, append(want, q.last+1), drain(t, s))
}

// sameIDs calls cmp only where there is a difference to be shown: it is slow.
func sameIDs(t *testing.T, want, got []uint64) {
	t.Helper()
	if !slices.Equal(want, got) {
		t.Errorf("ids (-want +got):\n%s", cmp.Diff(want, got))
	}
}

func told(ranges []DroppedRange) (n uint64) {
	for _, r := range ranges {
		n += r.count()
	}
	return n
}

// TestEveryFileCutAtEveryByte cuts each file of a spool that was closed in order.
func TestEveryFileCutAtEveryByte(t *testing.T) {
	q := takeStill(t)
	for name, data := range q.files {
		t.Run(name, func(t *testing.T) {
			for size := range places(t, len(data)) {
				q.check(t, name, data[:size], func(at span) bool { return at.to > size })
				if t.Failed() {
					t.Fatalf("cut at byte %d of %d", size, len(data))
				}
			}
		})
	}
}

// places are the numbers below n: all of them, or in a short run every seventh,
// beginning with a random one that is logged.
func places(t *testing.T, n int) iter.Seq[int] {
	t.Helper()
	from, step := 0, 1
	if testing.Short() {
		step = 7
		from = rand.IntN(step)
		t.Logf("every %d. of %d places from %d on", step, n, from)
	}
	return func(yield func(int) bool) {
		for at := from; at < n && yield(at); at += step {
		}
	}
}

// TestEveryFileWithABitFlipped flips one bit of each byte of each file.
func TestEveryFileWithABitFlipped(t *testing.T) {
	q := takeStill(t)
	for name, data := range q.files {
		t.Run(name, func(t *testing.T) {
			for at := range places(t, len(data)) {
				flipped := slices.Clone(data)
				flipped[at] ^= 1 << (at * 5 % 8)
				q.check(t, name, flipped, func(s span) bool { return s.from <= at && at < s.to })
				if t.Failed() {
					t.Fatalf("bit %d of byte %d of %d", at*5%8, at, len(data))
				}
			}
		})
	}
}

// TestEverySegmentMissing takes each segment away, a damage that leaves no bytes
// to look at.
func TestEverySegmentMissing(t *testing.T) {
	q := takeStill(t)
	for name := range q.files {
		if !strings.HasSuffix(name, segmentSuffix) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			without := q
			without.files = maps.Clone(q.files)
			delete(without.files, name)
			without.place = maps.Clone(q.place)
			for id, at := range q.place {
				if at.file == name {
					without.place[id] = span{file: "missing"}
				}
			}
			without.check(t, "missing", nil, func(span) bool { return true })
		})
	}
}
