package commandtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/placetest"
	"github.com/gputally/gputally/internal/store/storetest"
)

// TestWhatLiesInAnOpenDataDirectoryIsPrivate: a directory that somebody made with
// mode 0755, with folders of an older version, shows its group nothing of ours.
func TestWhatLiesInAnOpenDataDirectoryIsPrivate(t *testing.T) {
	storetest.Library(t)
	data := filepath.Join(t.TempDir(), "data")
	for _, folder := range []string{"", "export", "kafka"} {
		if err := os.MkdirAll(filepath.Join(data, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	placetest.WriteFile(t, filepath.Join(data, "FORMAT"), "gputally data directory, format 1\n")
	programtest.MustInvoke(t, "import", "batches", "../../../testdata/contract/cases/r12_replicas.jsonl", "--data", data)
	entries, err := os.ReadDir(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %04o, want nothing for group and others", e.Name(), info.Mode().Perm())
		}
		t.Log(info.Mode(), e.Name())
	}
}
