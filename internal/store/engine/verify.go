package engine

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gputally/gputally/internal/fault"
	"github.com/gputally/gputally/internal/trust"
)

//go:embed lib/SHA256SUMS
var sums string

// ErrLibraryUntrusted is wrapped by every error about a library that isn't the pinned one, or that another user could
// have written.
var ErrLibraryUntrusted = fault.New(fault.Environment, "ClickHouse's library is not loaded")

// verify refuses a library that isn't byte for byte the one this build was made for (lib/SHA256SUMS), or that another
// user could have replaced. Reading half a gigabyte takes up to two seconds, so the identity of a verified file is
// stored in the user's cache directory; without one it is read each time.
func verify(path string) error {
	if err := trust.File(path); err != nil {
		return fmt.Errorf("%w: %w", ErrLibraryUntrusted, err)
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open library: %w", err)
	}
	defer file.Close() // opened for reading only
	want, _, _ := strings.Cut(sums, " ")
	stamp, text := remembered(file, want)
	if stamp != "" && trust.File(stamp) == nil {
		if known, err := os.ReadFile(stamp); err == nil && string(known) == text {
			return nil
		}
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return fmt.Errorf("read library %s: %w", path, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return fmt.Errorf("%w: %s has SHA-256 %s, want %s: `make build` fetches the right one", ErrLibraryUntrusted,
			path, got, want)
	}
	remember(stamp, text)
	return nil
}

// remembered returns the path and the text of the cache entry of a library: its sum, and the file attributes that
// every write changes. Empty: no entry can be made.
func remembered(file *os.File, sum string) (stamp, text string) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", ""
	}
	info, err := file.Stat()
	if err != nil {
		return "", ""
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", ""
	}
	text = fmt.Sprintf("%s device %d inode %d size %d modified %d changed %d\n",
		sum, s.Dev, s.Ino, s.Size, s.Mtim.Nano(), s.Ctim.Nano())
	name := sha256.Sum256([]byte(file.Name()))
	return filepath.Join(cache, "gputally", "libchdb-"+hex.EncodeToString(name[:8])), text
}

// remember writes the cache entry atomically. Errors are ignored: without the entry the next start reads the library
// again.
func remember(stamp, text string) {
	if stamp == "" || os.MkdirAll(filepath.Dir(stamp), 0o700) != nil {
		return
	}
	temp, err := os.CreateTemp(filepath.Dir(stamp), ".new-")
	if err != nil {
		return
	}
	_, err = temp.WriteString(text)
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), stamp)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
	}
}
