package spool

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

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
