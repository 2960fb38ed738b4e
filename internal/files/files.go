// Package files locks and replaces files of a data directory so that they are complete after a crash at any instant.
//
// Data in: paths, and the bytes of a file. Data out: files with mode 0600. Errors: ErrLocked, and the operating
// system's.
package files

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrLocked means that another process holds a lock.
var ErrLocked = errors.New("another process holds the lock")

// Lock is a locked file. The kernel releases the lock however the process ends; the file stays, since removing it
// would let two processes lock two files with the same name.
type Lock struct{ *os.File }

// TakeLock locks the file at path for this process, and creates it if it is missing. The error is ErrLocked if
// another process holds the lock.
func TakeLock(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return &Lock{f}, nil
	}
	_ = f.Close() // nothing was written
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// Close unlocks the file explicitly: a child process that is being forked has a copy of the descriptor until it
// execs, so that closing ours would not release the lock yet.
func (l *Lock) Close() error {
	return errors.Join(syscall.Flock(int(l.Fd()), syscall.LOCK_UN), l.File.Close())
}

// Remove removes a file; a missing file is no error.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Write replaces a file by data, like Replace.
func Write(path string, data []byte) error {
	return Replace(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Replace writes a file beside path, with mode 0600, syncs it and renames it to path: a reader, or the next start
// after a crash, sees either the old file or the new one.
func Replace(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp-*")
	if err != nil {
		return err
	}
	buffer := bufio.NewWriter(f)
	err = write(buffer)
	if err == nil {
		err = errors.Join(buffer.Flush(), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, Remove(f.Name()))
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir syncs a directory's entries to disk.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
