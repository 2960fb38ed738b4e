package datadir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// tempPrefix is the prefix of the directories that a later holder may remove.
const tempPrefix = "gputally-"

// maxSocketDir leaves room for a socket's name within sun_path (unix(7): 108 bytes on Linux, 104 on macOS, with the
// final NUL).
const maxSocketDir = 80

// makeTemp creates a private directory for sockets, in the system's temporary directory unless its path is too long.
func makeTemp() (string, error) {
	parent := os.TempDir()
	if len(parent) > maxSocketDir-len(tempPrefix)-12 {
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, tempPrefix)
	if err != nil {
		return "", fmt.Errorf("create directory for sockets: %w", err)
	}
	return dir, nil
}

// removeTemp removes a directory that makeTemp created, and nothing else, whatever a damaged run.json contains.
// Errors are ignored: the system cleans its temporary directory.
func removeTemp(dir string) {
	if filepath.IsAbs(dir) && strings.HasPrefix(filepath.Base(dir), tempPrefix) {
		_ = os.RemoveAll(dir)
	}
}
