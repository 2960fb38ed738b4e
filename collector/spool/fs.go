package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// fileSystem is everything the spool asks of the disk, so that tests can fail
// the next write or drop what was not synced.
type fileSystem interface {
	// Open opens a file for reading and writing; create makes it if missing.
	Open(path string, create bool) (file, error)
	Remove(path string) error
	// List gives the names of dir's files, ascending.
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
	f, err := os.OpenFile(path, flag, 0o640)
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

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// readOnlyFS opens without the right to write: ReadStats looks at a spool that
// another process, perhaps another user's, has open.
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

// ErrLocked means that another process has the spool open.
var ErrLocked = errors.New("another collector has this spool open")

// takeLock locks dir for this process; the system frees the lock when it ends.
func takeLock(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %q: %w", path, ErrLocked)
		}
		return nil, fmt.Errorf("lock %q: %w", path, err)
	}
	return f, nil
}
