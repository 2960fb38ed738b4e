package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gputally/gputally/internal/unixsock"
)

// maxSocketDir leaves room for a socket's name within sun_path (unix(7): 108 bytes on Linux, 104 on macOS, with the
// final NUL).
const maxSocketDir = 80

// randomDigits is the greatest number of digits that os.MkdirTemp adds.
const randomDigits = 10

// prefixOf is the prefix of the temporary directories of a data directory, from its locked LOCK: the holder of a copy
// has another LOCK. Who holds the lock knows that the holders who made older directories with this prefix have ended.
func prefixOf(lock *os.File) (string, error) {
	info, err := lock.Stat()
	if err != nil {
		return "", err
	}
	var device, inode uint64
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		device, inode = s.Dev, s.Ino
	}
	return fmt.Sprintf("gputally-%x-%x-", device, inode), nil
}

// makeTemp creates a private directory for sockets, in the system's temporary directory unless its path is too long.
func makeTemp(prefix string) (string, error) {
	parent := os.TempDir()
	if len(parent) > maxSocketDir-1-len(prefix)-randomDigits {
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return "", fmt.Errorf("create directory for sockets: %w", err)
	}
	return dir, nil
}

// removeStale removes the temporary directory of a holder that has ended. run.json names it, and may be damaged, or
// of the data directory that this one is a copy of: any directory without the prefix stays, and so does one in which
// somebody still answers.
func removeStale(dir, prefix string) {
	if !filepath.IsAbs(dir) || !strings.HasPrefix(filepath.Base(dir), prefix) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	for _, socket := range socketsIn(dir) {
		conn, err := unixsock.Dial(ctx, socket)
		if err == nil {
			_ = conn.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
	}
	removeTemp(dir)
}

// removeTemp removes a directory that has nothing but sockets; of any other, only the sockets. Errors are ignored:
// the system cleans its temporary directory.
func removeTemp(dir string) {
	for _, socket := range socketsIn(dir) {
		_ = os.Remove(socket)
	}
	_ = syscall.Rmdir(dir)
}

// socketsIn returns the paths of a directory's sockets; none if dir is a symbolic link.
func socketsIn(dir string) (paths []string) {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return nil
	}
	entries, _ := os.ReadDir(dir) // unreadable: as if it had none
	for _, e := range entries {
		if e.Type() == fs.ModeSocket {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}
