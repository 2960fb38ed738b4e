package files

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestLockIsHeldByOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "LOCK")
	l, err := TakeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TakeLock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("TakeLock = %v while it is held, want ErrLocked", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := TakeLock(path)
	if err != nil {
		t.Fatalf("TakeLock after Close: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestLockFollowsNoLink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "LOCK")
	if err := os.Symlink(path+".other", path); err != nil {
		t.Fatal(err)
	}
	if _, err := TakeLock(path); err == nil {
		t.Error("a symbolic link was taken for the lock")
	}
}

func TestReplaceLeavesOneFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, text := range []string{"old, and longer", "new"} {
		if err := Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != "new" {
		t.Errorf("file is %q, %v", got, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("folder has %v, %v, want one file", entries, err)
	}
	if err := Replace(path, func(io.Writer) error { return os.ErrInvalid }); !errors.Is(err, os.ErrInvalid) {
		t.Errorf("Replace = %v, want the writer's error", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("after a failure the folder has %v, %v, want one file", entries, err)
	}
	if err := Write(filepath.Join(dir, "none", "file"), nil); err == nil {
		t.Error("a file was written into a folder that isn't there")
	}
}
