package spool

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestReadStatsOfPartsOfASpool(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadStats(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: %v, want fs.ErrNotExist", err)
	}
	if err := open(t, dir, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	if st, err := ReadStats(dir); err != nil || st.Appended != 0 {
		t.Errorf("an empty spool: %+v, %v", st, err)
	}
	segment, _ := image(30, 90)
	disk := newMemFS()
	disk.put(filepath.Join(dir, segmentName(1)), segment)
	opt, err := Options{fs: disk}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if st, err := readStats(dir, opt); err != nil || st.Appended != 2 || st.Records != 2 {
		t.Errorf("segments without a state: %+v, %v", st, err)
	}
}

func TestReadStatsWhileOpen(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadStats(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadStats of no spool: %v, want fs.ErrNotExist", err)
	}
	s := open(t, dir, Options{SegmentBytes: 400})
	for seq := uint64(0); seq < 12; seq++ {
		appendSeqs(t, s, seq, seq+1, 100)
	}
	if err := s.Ack(5); err != nil {
		t.Fatal(err)
	}
	got, err := ReadStats(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(checkSum(t, s), got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("ReadStats (-Stats +ReadStats):\n%s", diff)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for id := uint64(6); id <= 12; id++ {
			if err := s.Ack(id); err != nil {
				t.Error(err)
			}
		}
	}()
	for {
		got, err := ReadStats(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got.Appended != 12 || got.Cursor+got.Records != 12 {
			t.Fatalf("ReadStats during Ack: %+v, want 12 appended and none dropped", got)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}
