package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/ingest"
)

// A spool folder may be a file system of its own: not all in it is a spool.
func TestSpoolStatesAreOfSpoolsAlone(t *testing.T) {
	data := t.TempDir()
	sp, err := spool.Open(filepath.Join(data, spoolDir, "sim"), spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sp.Append(t.Context(), [][]byte{[]byte("a"), []byte("b")}); err != nil {
		t.Fatal(err)
	}
	if err := sp.Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(data, spoolDir, "README"), "mounted here")
	if err := os.Mkdir(filepath.Join(data, spoolDir, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := spoolStates(data)
	if err != nil {
		t.Fatal(err)
	}
	want := []ingest.SpoolState{{Collector: "sim", Appended: 2, Remaining: 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spools (-want +got):\n%s", diff)
	}
}
