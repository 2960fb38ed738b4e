package datadir

import (
	"fmt"
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
