package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tempPrefix names the folders that a later holder may remove.
const tempPrefix = "gputally-"

// maxSocketDir leaves room for a socket's name below the about 100 bytes that
// sun_path holds (unix(7): 108 on Linux, 104 on macOS, with the final NUL).
const maxSocketDir = 80

// makeTemp makes a private folder for sockets, in the system's temporary folder
// unless that path is too long for sockets.
func makeTemp() (string, error) {
	parent := os.TempDir()
	if len(parent) > maxSocketDir-len(tempPrefix)-12 {
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, tempPrefix)
	if err != nil {
		return "", fmt.Errorf("make folder for sockets: %w", err)
	}
	return dir, nil
}

// removeTemp removes a folder that makeTemp made, and nothing else, whatever a
// damaged run.json names. What cannot be removed is left to the system.
func removeTemp(dir string) {
	if filepath.IsAbs(dir) && strings.HasPrefix(filepath.Base(dir), tempPrefix) {
		_ = os.RemoveAll(dir)
	}
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeAtomic replaces the file at path whole, so that a reader, or the next
// start after a crash, sees the old text or the new one.
func writeAtomic(path string, data []byte) (err error) {
	temp := path + ".new"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, removeIfThere(temp)))
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
