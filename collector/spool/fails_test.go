package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Whatever can't be read fails what needed it, and nothing is lost by that.
func TestEveryReadFails(t *testing.T) {
	opt := Options{SegmentBytes: 500, Describe: describe}
	for _, op := range []string{"open", "read", "list"} {
		failed := 0
		for nth := 1; ; nth++ {
			dir, disk := t.TempDir(), newMemFS()
			opt.fs = disk
			s := open(t, dir, opt)
			for seq := range uint64(9) {
				appendSeqs(t, s, seq, seq+1, 100)
			}
			appendSeqs(t, s, 9, 10, readChunkBytes+1) // takes a second look
			if err := errors.Join(s.Ack(2), s.Close()); err != nil {
				t.Fatal(err)
			}
			reads := 0
			disk.failRead = func(have, _ string) error {
				if have == op {
					if reads++; reads == nth {
						return syscall.EIO
					}
				}
				return nil
			}
			_, statsErr := readStats(dir, opt)
			if reads >= nth && !errors.Is(statsErr, syscall.EIO) {
				t.Fatalf("ReadStats whose %s %d fails: %v", op, nth, statsErr)
			}
			var got []uint64
			s, err := Open(dir, opt)
			if err != nil {
				s = open(t, dir, opt)
			}
			for range 10 {
				recs, nextErr := s.Next(&ended{Context: t.Context()}, 100)
				if err = errors.Join(err, nextErr); errors.Is(nextErr, context.DeadlineExceeded) {
					break
				}
				got = append(got, idsOf(recs)...)
			}
			if reads < nth {
				break
			}
			failed++
			if statsErr == nil && !errors.Is(err, syscall.EIO) {
				t.Errorf("%s %d fails, and the spool says %v", op, nth, err)
			}
			want := Stats{Appended: 10, Cursor: 2, Records: 8}
			st := checkSum(t, s)
			if diff := cmp.Diff(want, st, cmpopts.IgnoreFields(Stats{}, "Bytes", "Segments"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s %d failed: Stats (-want +got):\n%s", op, nth, diff)
			}
			sameIDs(t, ids(3, 10), got)
		}
		if failed == 0 {
			t.Errorf("no %s was needed", op)
		}
	}
}

// A full spool that can't save what it drops drops nothing.
func TestDropsOnlyWhatIsSaved(t *testing.T) {
	for name, broken := range map[string]func(op, name string) bool{
		"state":  func(op, name string) bool { return op == "write" && strings.HasPrefix(name, "state") },
		"remove": func(op, _ string) bool { return op == "remove" },
	} {
		disk := newMemFS()
		s := open(t, t.TempDir(), Options{SegmentBytes: 500, MaxBytes: minMaxBytes, Describe: describe, fs: disk})
		var seq uint64
		for checkSum(t, s).Dropped == 0 {
			seq++
			appendSeqs(t, s, seq, seq+1, 100)
		}
		for s.Stats().Bytes+headerBytes+frameHeadBytes+100 <= minMaxBytes {
			seq++
			appendSeqs(t, s, seq, seq+1, 100)
		}
		before := s.Stats()
		disk.fail = func(op, name string) error {
			if broken(op, name) {
				return syscall.EIO
			}
			return nil
		}
		for range 2 {
			if _, err := s.Append(testContext(t), [][]byte{record(1000, seq+1, 100)}); err == nil {
				t.Errorf("%s: appended to a full spool that can drop nothing", name)
			}
		}
		after := s.Stats()
		if name == "remove" { // settled and told, and still there
			if after.Dropped <= before.Dropped || after.Bytes != before.Bytes || after.Segments != before.Segments {
				t.Errorf("%s: %+v became %+v", name, before, after)
			}
		} else if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s: Stats (-before +after):\n%s", name, diff)
		}
		disk.fail = nil
		appendSeqs(t, s, seq+1, seq+2, 100)
		if got := checkSum(t, s); got.Appended != before.Appended+1 || got.Dropped <= before.Dropped || got.CorruptRecords != 0 {
			t.Errorf("%s: with the disk mended %+v", name, got)
		}
	}
}

// What an Ack settled in memory only is made durable before it makes room, and is not
// told as dropped.
func TestRoomOfWhatAnAckCouldNotSave(t *testing.T) {
	disk := newMemFS()
	s := open(t, t.TempDir(), Options{SegmentBytes: 500, MaxBytes: minMaxBytes, Describe: describe, fs: disk})
	var seq uint64
	for ; s.Stats().Bytes+headerBytes+frameHeadBytes+100 <= minMaxBytes; seq++ {
		appendSeqs(t, s, seq, seq+1, 100)
	}
	disk.fail = func(_, name string) error {
		if strings.HasPrefix(name, "state") {
			return syscall.EIO
		}
		return nil
	}
	if err := s.Ack(s.end(1)); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Ack on a disk that takes no state: %v", err)
	}
	disk.fail = nil
	for range 6 {
		appendSeqs(t, s, seq, seq+1, 100)
		seq++
	}
	if st := checkSum(t, s); st.Dropped != 0 || st.Appended != seq {
		t.Errorf("%+v, want %d appended and none dropped", st, seq)
	}
}

// What could not be removed when it was settled is removed at the next start.
func TestRemovesAtTheNextStart(t *testing.T) {
	dir, disk := t.TempDir(), newMemFS()
	opt := Options{SegmentBytes: 500, Describe: describe, fs: disk}
	s := open(t, dir, opt)
	for seq := range uint64(12) {
		appendSeqs(t, s, seq, seq+1, 100)
	}
	disk.fail = func(op, _ string) error {
		if op == "remove" {
			return syscall.EACCES
		}
		return nil
	}
	if err := errors.Join(s.Ack(10), s.Close()); err != nil {
		t.Fatal(err)
	}
	disk.fail = nil
	s = open(t, dir, opt)
	if segments := checkSum(t, s).Segments; segments != 1 || disk.files[filepath.Join(dir, segmentName(1))] != nil {
		t.Errorf("%d segments, want the last one only", segments)
	}
	sameIDs(t, ids(11, 12), drain(t, s))
}

func TestCloseEndsWhoWaits(t *testing.T) {
	s := open(t, t.TempDir(), Options{MaxBytes: minMaxBytes, Policy: Block})
	full := [][]byte{make([]byte, minMaxBytes-headerBytes-frameHeadBytes)}
	if _, err := s.Append(testContext(t), full); err != nil {
		t.Fatal(err)
	}
	if recs, err := s.Next(testContext(t), 1); len(recs) != 1 || err != nil {
		t.Fatal(recs, err)
	}
	waits := map[string]func(context.Context) error{
		"Next":   func(ctx context.Context) error { _, err := s.Next(ctx, 1); return err },
		"Append": func(ctx context.Context) error { _, err := s.Append(ctx, full); return err },
	}
	results, waiting := make(chan error), make(chan struct{}, 2)
	for name, wait := range waits {
		go func() {
			err := wait(notifies{testContext(t), waiting})
			if !errors.Is(err, ErrClosed) {
				err = fmt.Errorf("%s: %w", name, errors.Join(err, errors.New("want ErrClosed")))
			} else {
				err = nil
			}
			results <- err
		}()
	}
	<-waiting
	<-waiting
	for range 2 { // a second time has no effect
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	for range waits {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	_, appendErr := s.Append(t.Context(), nil)
	_, nextErr := s.Next(t.Context(), 1)
	for i, err := range []error{appendErr, nextErr, s.Ack(1), s.ForgetDropped(nil)} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("call %d on a closed spool: %v, want ErrClosed", i, err)
		}
	}
}

// notifies tells when somebody begins to wait for it: the spool's lock is held then.
type notifies struct {
	context.Context
	waiting chan struct{}
}

func (n notifies) Done() <-chan struct{} {
	n.waiting <- struct{}{}
	return n.Context.Done()
}

// A record larger than what is read at once, damaged, costs itself.
func TestDamagedRecordsBeyondChunks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{readChunkBytes - frameHeadBytes, readChunkBytes, 3 * readChunkBytes} {
		for at, keep := range map[int]bool{0: false, 5: false, frameHeadBytes + size/2: false, frameHeadBytes + size - 1: false, -1: true} {
			dir, disk := t.TempDir(), newMemFS()
			s := open(t, dir, Options{SegmentBytes: 32 << 20, Describe: describe, fs: disk})
			appendSeqs(t, s, 0, 2, 100)
			appendSeqs(t, s, 2, 3, size)
			appendSeqs(t, s, 3, 6, 50+rng.IntN(50))
			want := []uint64{1, 2, 3, 4, 5, 6}
			if !keep {
				want = []uint64{1, 2, 4, 5, 6}
				disk.files[s.path(1)].data[headerBytes+2*(frameHeadBytes+100)+at] ^= 1
			}
			sameIDs(t, want, drain(t, s))
			if st := checkSum(t, s); st.CorruptRecords != uint64(6-len(want)) || st.Records != uint64(len(want)) {
				t.Errorf("%d bytes, damaged at %d: %+v", size, at, st)
			}
		}
	}
}

func TestOptionsHaveDefaultsAndBounds(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ segment, most, wantSegment, wantMost int64 }{
		{0, 0, 16 * mib, 1024 * mib},
		{0, 4096, 1024, 4096},
		{1, 4096, 1, 4096},
		{2000, 8000, 2000, 8000},
		{2001, 8000, 2000, 8000},
		{0, 4095, 0, 0},
		{-1, 4096, 0, 0},
		{1, -1, 0, 0},
	} {
		got, err := Options{SegmentBytes: c.segment, MaxBytes: c.most}.withDefaults()
		if (err != nil) != (c.wantMost == 0) || err == nil && (got.SegmentBytes != c.wantSegment || got.MaxBytes != c.wantMost) {
			t.Errorf("segments of %d, %d in all: %d, %d, %v; want %d, %d", c.segment, c.most, got.SegmentBytes, got.MaxBytes, err, c.wantSegment, c.wantMost)
		}
	}
	for policy, want := range map[Policy]bool{DropOldest: true, Block: true, Block + 1: false, -1: false} {
		if _, err := (Options{Policy: policy}).withDefaults(); (err == nil) != want {
			t.Errorf("policy %d: %v", policy, err)
		}
	}
	if _, err := ReadStats(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// ended is a context that ends as soon as somebody waits for it.
type ended struct {
	context.Context
	waited bool
}

func (e *ended) Done() <-chan struct{} {
	e.waited = true
	done := make(chan struct{})
	close(done)
	return done
}

func (e *ended) Err() error {
	if e.waited {
		return context.DeadlineExceeded
	}
	return nil
}

// TestTheDiskItselfFails: directories that can't be made or listed are errors.
func TestTheDiskItselfFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if names, err := (osFS{}).List(file); err == nil {
		t.Errorf("List of a file: %v, want an error", names)
	}
	if err := makeDir(filepath.Join(file, "spool")); err == nil {
		t.Error("a directory in a file: no error")
	}
}

// TestBytesAreThoseOfTheFiles: after a torn append, too.
func TestBytesAreThoseOfTheFiles(t *testing.T) {
	dir, disk := t.TempDir(), newMemFS()
	opt := Options{SegmentBytes: 500, Describe: describe, fs: disk}
	s := open(t, dir, opt)
	for seq := range uint64(7) {
		appendSeqs(t, s, seq, seq+1, 100)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for path, inode := range disk.files {
		if strings.HasSuffix(path, segmentName(s.segs[len(s.segs)-1].first)) {
			disk.put(path, append(slices.Clone(inode.data), 1, 2, 3))
		}
	}
	s = open(t, dir, opt)
	var files int64
	for path, inode := range disk.files {
		if strings.HasSuffix(path, segmentSuffix) {
			files += int64(len(inode.data))
		}
	}
	if st := s.Stats(); st.TornBytes != 3 || st.Bytes != files {
		t.Errorf("%d bytes, %d torn, want %d of the files and 3", st.Bytes, st.TornBytes, files)
	}
}
