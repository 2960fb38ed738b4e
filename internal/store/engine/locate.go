package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputally/gputally/internal/fault"
)

// LibraryEnv is the environment variable with the library's path.
const LibraryEnv = "GPUTALLY_LIBCHDB"

const libraryName = "libchdb.so"

// ErrLibraryMissing is wrapped by every error about a missing library.
var ErrLibraryMissing = fault.New(fault.Environment, "ClickHouse's library libchdb.so is missing")

// Locate returns the path of libchdb.so: the explicit path, else GPUTALLY_LIBCHDB, else lib/libchdb.so beside the
// executable. If one of the first two is set and the file is missing, that is an error. The working directory is not
// searched, since other users may be able to write to it; only tests, whose executables are in temporary directories,
// use .build/lib/libchdb.so in the directory of go.mod.
func Locate(explicit string) (string, error) {
	if explicit != "" {
		return requireFile(explicit, "the configured path")
	}
	if path := os.Getenv(LibraryEnv); path != "" {
		return requireFile(path, LibraryEnv)
	}
	candidates := searchPath()
	for _, path := range candidates {
		if isFile(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: not found at %s: `make build` fetches it, or set %s",
		ErrLibraryMissing, strings.Join(candidates, ", "), LibraryEnv)
}

func requireFile(path, origin string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolve library path %q: %w", path, err)
	}
	if !isFile(absolute) {
		return "", fmt.Errorf("%w: %s (from %s) is not a file: `make build` fetches it", ErrLibraryMissing, absolute, origin)
	}
	return absolute, nil
}

func searchPath() []string {
	var paths []string
	if executable, err := os.Executable(); err == nil {
		paths = append(paths, filepath.Join(filepath.Dir(executable), "lib", libraryName))
	}
	dir, err := os.Getwd()
	if err != nil || !testing.Testing() {
		return paths
	}
	for {
		if isFile(filepath.Join(dir, "go.mod")) {
			return append(paths, filepath.Join(dir, ".build", "lib", libraryName))
		}
		if dir == filepath.Dir(dir) {
			return paths
		}
		dir = filepath.Dir(dir)
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist) && err == nil && info.Mode().IsRegular()
}
