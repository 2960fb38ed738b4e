package spool

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gputally/gputally/internal/files"
)

// fileSystem is every operation of the spool on the disk, so that tests can fail the next write or drop what was not
// synced.
type fileSystem interface {
	// Open opens a file for reading and writing; create creates it if it is missing.
	Open(path string, create bool) (file, error)
	Remove(path string) error
	// List returns the names of dir's files, ascending.
	List(dir string) ([]string, error)
	// SyncDir makes creations in dir durable.
	SyncDir(dir string) error
}

type file interface {
	io.ReaderAt
	io.WriterAt
	Truncate(sizeBytes int64) error
	Sync() error
	Close() error
}

type osFS struct{}

func (osFS) Open(path string, create bool) (file, error) {
	flag := os.O_RDWR
	if create {
		flag |= os.O_CREATE
	}
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (osFS) Remove(path string) error { return os.Remove(path) }

func (osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (osFS) SyncDir(dir string) error { return files.SyncDir(dir) }

// makeDir creates dir and its missing parents durably: if a power failure removed the spool's directory entry, all
// records would be lost.
func makeDir(dir string) error {
	parents := []string{filepath.Dir(dir)}
	for p := parents[0]; ; p = filepath.Dir(p) {
		if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		parents = append(parents, filepath.Dir(p))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, p := range parents {
		// A directory without read permission was created by others earlier.
		if err := (osFS{}).SyncDir(p); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// readOnlyFS opens files for reading only: ReadStats reads a spool that another process, perhaps another user's, has
// open.
type readOnlyFS struct{ osFS }

func (readOnlyFS) Open(path string, _ bool) (file, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// readAll reads a whole file into buf, which grows as needed.
func readAll(f io.ReaderAt, buf []byte) ([]byte, error) {
	buf = buf[:cap(buf)]
	n := 0
	for {
		if n == len(buf) {
			buf = append(buf, make([]byte, max(64<<10, len(buf)))...)
		}
		got, err := f.ReadAt(buf[n:], int64(n))
		n += got
		if errors.Is(err, io.EOF) {
			return buf[:n], nil
		}
		if err != nil {
			return nil, err
		}
	}
}
